/* The lines of a log that a page holds at a time: a bounded stretch of it, which grows at either end and is cut at the other.
 * Bytes `start` to `end` of the log are shown, `next` is the number of the line after them; end is null while nothing is.
 * A mark is a place between two lines whose byte is known: only there it is cut.
 */
import { Ansi } from "./ansi.js";

const MOST_LINES = 5000, MOST_BYTES = 2 << 20;

export class LogLines {
  /* dress(element, number): what a line is given when it appears. */
  constructor(host, dress) {
    Object.assign(this, { host, dress });
    this.clear();
  }

  clear() {
    this.host.replaceChildren();
    Object.assign(this, { start: 0, end: null, next: 1, marks: [] });
    this.ansi = new Ansi(() => this.host.appendChild(this.#line(this.next++)));
  }

  begin(start, line) {
    this.clear();
    Object.assign(this, { start, end: start, next: line });
  }

  append(text, end) {
    if (!text) return;
    if (this.ansi.atLineStart) this.marks.push({ offset: this.end, line: this.next });
    this.ansi.write(text);
    this.end = end;
  }

  prepend({ start, line, text }) {
    const earlier = document.createDocumentFragment();
    let number = line;
    const ansi = new Ansi(() => earlier.appendChild(this.#line(number++)));
    ansi.write(text);
    this.host.prepend(earlier);
    this.marks.unshift({ offset: start, line });
    this.start = start;
  }

  get isTooMuch() {
    return this.host.childElementCount > MOST_LINES || this.end - this.start > MOST_BYTES;
  }

  /* Cut as many whole pieces before as are needed, and keep those from `keep` (a line's number) on. */
  cutBefore(keep = Infinity) {
    while (this.isTooMuch && this.marks.length > 1 && this.marks[1].line <= keep) {
      this.marks.shift();
      const { offset, line } = this.marks[0];
      while (this.host.firstElementChild && Number(this.host.firstElementChild.dataset.line) < line) this.host.firstElementChild.remove();
      this.start = offset;
    }
  }

  cutAfter(keep = -Infinity) {
    while (this.isTooMuch && this.marks.length > 1 && this.marks.at(-1).line > keep) {
      const { offset, line } = this.marks.pop();
      while (this.host.lastElementChild && Number(this.host.lastElementChild.dataset.line) >= line) this.host.lastElementChild.remove();
      Object.assign(this, { end: offset, next: line });
      this.ansi = new Ansi(() => this.host.appendChild(this.#line(this.next++)));
    }
  }

  find(number) {
    return this.end === null ? null : this.host.querySelector(`[data-line="${number}"]`);
  }

  #line(number) {
    const line = document.createElement("div");
    line.dataset.line = number;
    this.dress(line, number);
    return line;
  }
}
