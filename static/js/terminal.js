/* The web terminal (templates/terminal/page.html) over the socket of portal/gateway/terminal/terminal.py, which says its protocol.
 * After a lost network it asks for the same shell by its key and goes on at the byte where it was; both directions count.
 */
import "./adopted-style.js";
import { Terminal } from "../vendor/xterm.min.js";
import { FitAddon } from "../vendor/xterm-fit.min.js";

const PIECE = 16_384, AHEAD = 65_536, LONGEST_WAIT_S = 8, FINAL = 4000;
const TITLE_FOLDER_AND_CLIPBOARD = [0, 1, 2, 7, 52]; // a program changes neither the page's title nor what is copied
const KEYS = { "Esc": "\x1b", "Tab": "\t", "Ctrl+C": "\x03", "Ctrl+D": "\x04" };
const ARROWS = { "↑": "A", "↓": "B", "→": "C", "←": "D" };
const CALM = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[!p"; // modes that a gone program left on
const host = document.getElementById("terminal"), state = document.getElementById("terminal-state");
const button = document.getElementById("terminal-connect"), place = `terminal:${host.dataset.task}`;

const term = new Terminal({ cursorBlink: true, fontSize: 13, scrollback: 5000, disableStdin: true, linkHandler: { activate } });
const fit = new FitAddon();
let socket = null, key = sessionStorage.getItem(place) ?? "", tries = 0, retry = 0, dressed = false;
let written = 0; // bytes of output given to the screen
let typed = [], sent = 0, taken = 0, total = 0; // pieces not yet taken, each {at, data}; counts of bytes

function connect() {
  clearTimeout(retry);
  socket?.close(); // one that is still being opened would take the shell from this one
  button.hidden = true;
  show(tries ? "retrying" : "connecting");
  const fresh = new WebSocket(location.origin.replace(/^http/, "ws") + host.dataset.socket);
  fresh.binaryType = "arraybuffer";
  fresh.onopen = () => fresh.send(JSON.stringify({ hello: key, shown: written, size: [term.cols, term.rows] }));
  fresh.onmessage = ({ data }) => fresh === socket && (typeof data === "string" ? hear(JSON.parse(data)) : write(new Uint8Array(data)));
  fresh.onclose = ({ code }) => drop(fresh, code);
  socket = fresh;
}

function hear(message) {
  if ("shell" in message) greet(message);
  if ("taken" in message) take(message.taken);
  if ("bye" in message) end(message);
}

function greet({ shell, again, at, received }) {
  const before = key !== "", blank = written === 0;
  key = shell;
  sessionStorage.setItem(place, key);
  written = at;
  tries = 0;
  if (!again) [typed, sent, taken, total] = [[], 0, 0, 0];
  else if (blank) [typed, sent, taken, total] = [[], received, received, received];
  else sent = received;
  if (before && !again) note(host.dataset.wordsNoteFresh);
  if (again && blank) redraw();
  term.options.disableStdin = false;
  show(!before ? "connected" : again ? "again" : "fresh");
  flush();
}

/* A page that was loaded again has an empty screen: a change of size lets the program draw all of it. */
function redraw() {
  note(host.dataset.wordsNoteAgain);
  say({ size: [term.cols, term.rows - 1] });
  setTimeout(() => say({ size: [term.cols, term.rows] }), 100);
}

function write(bytes) {
  written += bytes.length;
  const end = written, to = socket;
  term.write(bytes, () => to === socket && say({ ack: end }));
}

function note(words) {
  term.write(`${CALM}\r\n\x1b[7m ${words} \x1b[0m\r\n`);
}

function end({ bye, detail, code }) {
  sessionStorage.setItem(place, (key = bye === "elsewhere" ? key : ""));
  state.dataset.closed = "yes";
  show(bye, { code }, detail);
}

/* A dead network closes a socket minutes later, if at all: it is given up as soon as the browser says "offline". */
function drop(gone, code = 0) {
  if (gone !== socket || gone === null) return;
  socket = null;
  gone.close();
  lost(code);
}

function lost(code) {
  term.options.disableStdin = true;
  if (code >= FINAL || state.dataset.closed) {
    delete state.dataset.closed;
    [tries, button.hidden] = [0, false];
    return;
  }
  const wait = tries === 0 ? 1 : Math.min(LONGEST_WAIT_S, 2 ** tries);
  tries++;
  countDown(wait);
}

function countDown(seconds) {
  if (seconds <= 0) return connect();
  show("lost", { s: seconds });
  retry = setTimeout(countDown, 1000, seconds - 1);
}

function show(what, values = {}, more = "") {
  const open = ["connecting", "connected", "again", "fresh", "lost", "retrying"].includes(what);
  const words = state.getAttribute(`data-words-${what}`) ?? what;
  state.dataset.state = open ? what : "closed";
  state.textContent = [words.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "?"), more].filter(Boolean).join(" ");
}

/* ---- what is typed ---- */

function type(data) {
  for (let from = 0; from < data.length; from += PIECE) {
    const piece = data.slice(from, from + PIECE);
    typed.push({ at: total, data: piece });
    total += piece.length;
  }
  flush();
}

function flush() {
  for (const { at, data } of typed) {
    if (at < sent) continue;
    if (socket?.readyState !== WebSocket.OPEN || at + data.length > taken + AHEAD) return;
    socket.send(data);
    sent = at + data.length;
  }
}

function take(count) {
  taken = count;
  typed = typed.filter(({ at, data }) => at + data.length > taken);
  flush();
}

const say = (message) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));

/* ---- the screen ---- */

/* Our tokens are light-dark(): only a computed colour is one that the terminal understands. */
function dress() {
  const probe = host.appendChild(document.createElement("i"));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const bright = (name) => `bright${name[0].toUpperCase()}${name.slice(1)}`;
  term.options.theme = {
    background: colour("surface"), foreground: colour("ink"), cursor: colour("ink"), cursorAccent: colour("surface"),
    selectionBackground: colour("selection"), scrollbarSliderBackground: colour("line-strong"),
    ...Object.fromEntries(names.flatMap((name, i) => [[name, colour(`ansi-${i}`)], [bright(name), colour(`ansi-${i + 8}`)]])),
  };
  probe.style.fontFamily = "var(--mono)";
  if (!dressed) term.options.fontFamily = getComputedStyle(probe).fontFamily;
  dressed = true;
  probe.remove();
}

function activate(event, address) {
  if (/^https?:\/\//i.test(address)) window.open(address, "_blank", "noopener,noreferrer");
}

function press(event) {
  if (event.type !== "keydown" || !event.ctrlKey || !event.shiftKey) return true;
  if (event.code === "KeyC" && term.hasSelection()) navigator.clipboard?.writeText(term.getSelection());
  if (event.code === "Enter") (button.hidden ? document.querySelector(".answer a") : button).focus();
  if (event.code === "KeyC" || event.code === "Enter") event.preventDefault();
  return !["KeyC", "KeyV", "Enter"].includes(event.code); // the browser itself pastes
}

function touch({ target }) {
  const name = target.closest("[data-key]")?.dataset.key;
  if (!name) return;
  const arrow = (term.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[") + ARROWS[name];
  term.input(KEYS[name] ?? arrow);
  term.focus();
}

const encoder = new TextEncoder();
for (const number of TITLE_FOLDER_AND_CLIPBOARD) term.parser.registerOscHandler(number, () => true);
term.loadAddon(fit);
dress();
term.open(host);
fit.fit();
term.attachCustomKeyEventHandler(press);
term.onData((text) => type(encoder.encode(text)));
term.onBinary((text) => type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
term.onResize(({ cols, rows }) => say({ size: [cols, rows] }));
new ResizeObserver(() => fit.fit()).observe(host);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
host.addEventListener("keydown", (event) => event.stopPropagation()); // no key of the page's own means anything in here
document.querySelector(".terminal-touch").addEventListener("click", touch);
button.addEventListener("click", connect);
window.addEventListener("offline", () => drop(socket));
window.addEventListener("online", () => tries && connect());
term.focus();
connect();
