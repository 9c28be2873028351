/* Terminal text to DOM: SGR colours become classes, every other escape is dropped, everything else is text nodes.
 * new Ansi(addLine).write(chunk): a sequence or a line may be split over chunks. "\r" starts its line again (progress bars).
 * addLine() returns the element of a new line. atLineStart: whether the next character begins one.
 */
const SEQUENCE =
  /\x1b(?:\[([0-9;:<=>?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]+[0-~]|[0-Z\\`-~])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
const LONGEST_SEQUENCE = 4096;
const FLAGS = { 1: "b", 2: "d", 4: "u" };
const PLAIN = { c: "", k: "", b: false, d: false, u: false };

export class Ansi {
  constructor(addLine) {
    Object.assign(this, { addLine, rest: "", style: { ...PLAIN }, line: null, again: false });
  }

  get atLineStart() {
    return this.line === null && !this.rest;
  }

  write(chunk) {
    const [whole, rest] = splitAtOpenSequence(this.rest + chunk);
    this.rest = rest;
    let from = 0;
    for (const match of whole.matchAll(SEQUENCE)) {
      this.#text(whole.slice(from, match.index));
      from = match.index + match[0].length;
      if (match[2] === "m") this.#sgr(match[1].split(/[;:]/).map(Number));
    }
    this.#text(whole.slice(from));
  }

  #text(text) {
    for (const part of text.split(/(\n|\r)/)) {
      if (part === "\r") this.again = true;
      else if (part === "\n") this.#endLine();
      else if (part) this.#append(part);
    }
  }

  #endLine() {
    if (this.line === null) this.addLine();
    [this.line, this.again] = [null, false];
  }

  #append(textContent) {
    this.line ??= this.addLine();
    if (this.again) this.line.replaceChildren();
    this.again = false;
    const { c, k, b, d, u } = this.style;
    const className = [c && `c${c}`, k && `k${k}`, b && "b", d && "d", u && "u"].filter(Boolean).join(" ");
    const span = () => Object.assign(document.createElement("span"), { className, textContent });
    this.line.append(className ? span() : textContent);
  }

  #sgr(codes) {
    for (let i = 0; i < codes.length; i++) {
      const [code, unit] = [codes[i], String(codes[i] % 10)];
      if (code === 0) this.style = { ...PLAIN };
      else if (FLAGS[code]) this.style[FLAGS[code]] = true;
      else if (code === 22) this.style.b = this.style.d = false;
      else if (code === 24) this.style.u = false;
      else if (code === 38 || code === 48) {
        const [colour, used] = extended(codes.slice(i + 1));
        this.style[code === 38 ? "c" : "k"] = colour;
        i += used;
      } else if ((code >= 30 && code <= 39) || (code >= 90 && code <= 97)) this.style.c = unit < 8 ? unit : "";
      else if ((code >= 40 && code <= 49) || (code >= 100 && code <= 107)) this.style.k = unit < 8 ? unit : "";
    }
  }
}

/* "5;n" of the 256 colours: the first 16 are the 8 we have, the others stay plain. "2;r;g;b" stays plain. */
const extended = ([kind, n]) => (kind === 5 ? [n < 16 ? String(n % 8) : "", 2] : kind === 2 ? ["", 4] : ["", 0]);

function splitAtOpenSequence(text) {
  const last = text.lastIndexOf("\x1b");
  if (last < 0 || text.length - last > LONGEST_SEQUENCE) return [text, ""];
  SEQUENCE.lastIndex = last;
  const match = SEQUENCE.exec(text);
  SEQUENCE.lastIndex = 0;
  return match?.index === last ? [text, ""] : [text.slice(0, last), text.slice(last)];
}
