/* <log-view data-task="uuid">: the log of one task over the live socket (templates/_log.html).
 * Asks {"follow": uuid, "offset": n}, gets {"log": uuid, "offset": n, "next": m, "data": text}, answers {"ack": m}: bytes.
 * A new view starts near the end of the log; after a gap it goes on where it was. Scrolling up pauses following.
 */
import { Ansi } from "./ansi.js";

const TAIL_BYTES = 262_144, MOST_LINES = 5000, NEAR_END_PX = 24;

class LogView extends HTMLElement {
  connectedCallback() {
    this.lines = this.querySelector(".log-lines");
    this.note = this.querySelector("[data-log-note]");
    this.ansi = new Ansi(this.lines);
    this.lines.replaceChildren();
    this.offset = -TAIL_BYTES;
    this.follow = true;
    this.stop = new AbortController();
    const on = (target, name, act) => target.addEventListener(name, act, { signal: this.stop.signal });
    on(document.body, "live:open", () => this.ask());
    on(document.body, "live:log", ({ detail }) => detail.log === this.dataset.task && this.hear(detail));
    on(this.lines, "scroll", () => this.setFollow(this.isNearEnd()));
    on(this, "click", ({ target }) => this.press(target.closest("[data-log]")));
    this.ask();
  }

  disconnectedCallback() {
    this.stop.abort();
    this.send({ unfollow: this.dataset.task });
  }

  send(detail) {
    document.body.dispatchEvent(new CustomEvent("live:send", { detail }));
  }

  ask() {
    this.send({ follow: this.dataset.task, offset: this.offset });
  }

  hear({ offset, next, data, cut }) {
    if (data === undefined) return;
    if (this.offset >= 0 && offset !== this.offset) return;
    if (cut) this.note.textContent = this.dataset.wordsCut;
    this.ansi.write(data);
    this.offset = next;
    this.send({ ack: next, log: this.dataset.task });
    this.trim();
    if (this.follow) this.lines.scrollTop = this.lines.scrollHeight;
  }

  trim() {
    const tooMany = this.lines.childElementCount - MOST_LINES;
    if (tooMany <= 0) return;
    for (let i = 0; i < tooMany; i++) this.lines.firstElementChild.remove();
    this.note.textContent = this.dataset.wordsCut;
  }

  press(button) {
    if (button?.dataset.log === "wrap") button.setAttribute("aria-pressed", this.lines.classList.toggle("is-wrapped"));
    if (button?.dataset.log !== "follow") return;
    this.setFollow(!this.follow);
    if (this.follow) this.lines.scrollTop = this.lines.scrollHeight;
  }

  isNearEnd() {
    return this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < NEAR_END_PX;
  }

  setFollow(follow) {
    this.follow = follow;
    this.querySelector('[data-log="follow"]')?.setAttribute("aria-pressed", follow);
  }
}

customElements.define("log-view", LogView);
