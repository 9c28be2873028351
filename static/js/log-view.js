/* <log-view data-task="uuid" data-url="…" data-page="…">: the log of one task (templates/_log.html), of which it holds a part.
 * Its end comes over the live socket: it asks {"follow": uuid, "offset": n}, gets {"log": uuid, "offset": n, "next": m,
 * "data": text} and at first "line", answers {"ack": m}: bytes. Scrolling up pauses following; earlier and later parts, and
 * those around a line, come from data-url/lines. data-url/search finds lines (log-search.js). "#L123" on data-page is line 123.
 */
import { LogLines } from "./log-lines.js";
import { LogSearch } from "./log-search.js";
import { offsetOf } from "./time-zone.js";

const TAIL_BYTES = 262_144, NEAR_END_PX = 24, NEAR_EDGE_PX = 600, MOST_TIMES = 20_000, MB = 1e6;

class LogView extends HTMLElement {
  connectedCallback() {
    this.box = this.querySelector(".log-lines");
    this.note = this.querySelector("[data-log-note]");
    this.found = this.querySelector("[data-log-found]");
    this.field = this.querySelector("[data-log-search] input");
    this.lines = new LogLines(this.box, (line, number) => this.dress(line, number));
    this.chosen = 0;
    this.search = null;
    this.times = null; // of each line, while they are shown
    this.reading = false;
    this.stop = new AbortController();
    const on = (target, name, act) => target.addEventListener(name, act, { signal: this.stop.signal });
    on(document.body, "live:open", () => this.follows && this.ask());
    on(document.body, "live:log", ({ detail }) => detail.log === this.dataset.task && this.hear(detail));
    on(this.box, "scroll", () => this.scrolled());
    on(this, "click", (event) => this.press(event));
    on(this, "keydown", (event) => this.key(event));
    on(this, "submit", (event) => this.submit(event));
    on(this, "input", ({ target }) => target === this.field && !target.value && this.forget());
    if (this.dataset.page) on(window, "hashchange", () => this.goToHash());
    if (!this.dataset.page || !this.goToHash()) this.goToEnd();
  }

  disconnectedCallback() {
    this.stop.abort();
    this.search?.stop();
    this.unfollow();
  }

  // ---- the end, as it is written ----

  goToEnd() {
    this.setFollow(true);
    if (this.follows && this.lines.end !== null) {
      this.box.scrollTop = this.box.scrollHeight;
      return;
    }
    this.lines.clear();
    this.follows = true;
    this.ask();
  }

  ask() {
    this.send({ follow: this.dataset.task, offset: this.lines.end ?? -TAIL_BYTES });
  }

  hear({ offset, next, data, line }) {
    if (data === undefined || !this.follows) return;
    if (this.lines.end === null) this.lines.begin(offset, line ?? 1);
    if (offset !== this.lines.end) return;
    this.lines.append(data, next);
    this.send({ ack: next, log: this.dataset.task });
    if (this.follow) {
      this.lines.cutBefore();
      this.box.scrollTop = this.box.scrollHeight;
    } else if (this.lines.isTooMuch) this.unfollow(); // what is read stays; the rest is a scroll away
    this.show();
  }

  unfollow() {
    if (this.follows) this.send({ unfollow: this.dataset.task });
    this.follows = false;
  }

  send(detail) {
    document.body.dispatchEvent(new CustomEvent("live:send", { detail }));
  }

  setFollow(follow) {
    this.follow = follow;
    this.querySelector('[data-log="follow"]').setAttribute("aria-pressed", follow);
  }

  // ---- any part of it ----

  async goTo(number, focus = true) {
    this.setFollow(false);
    if (!this.lines.find(number)) {
      const part = await this.read({ line: number });
      if (!part) return;
      this.unfollow();
      this.lines.begin(part.start, part.line);
      this.lines.append(part.text, part.end);
    }
    this.choose(Math.min(number, this.lines.next - 1));
    const line = this.lines.find(this.chosen);
    if (line) this.box.scrollTop = line.offsetTop - (this.box.clientHeight - line.offsetHeight) / 2;
    if (focus) this.box.focus({ preventScroll: true });
    this.show();
    this.fill();
  }

  goToHash() {
    const number = Number(/^#L(\d{1,12})$/.exec(location.hash)?.[1] ?? 0);
    if (number > 0 && number !== this.chosen) this.goTo(number, false);
    return number > 0;
  }

  scrolled() {
    this.setFollow(this.follows && this.lines.end !== null && this.isNearEnd());
    this.fill();
  }

  isNearEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_END_PX;
  }

  /* Read what is missing near the edge that is seen. */
  async fill() {
    const { box, lines } = this;
    if (this.reading || lines.end === null || !this.dataset.url) return;
    if (box.scrollTop < NEAR_EDGE_PX && lines.start > 0) {
      const part = await this.read({ before: lines.start });
      if (part?.end === lines.start) this.putBefore(part);
      else return;
    } else if (!this.follows && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_EDGE_PX) {
      const part = await this.read({ from: lines.end });
      if (part?.start !== lines.end) return;
      this.putAfter(part);
      if (part.end >= part.size) return;
    } else return;
    this.fill();
  }

  putBefore(part) {
    const { box, lines } = this;
    const fromEnd = box.scrollHeight - box.scrollTop;
    lines.prepend(part);
    box.scrollTop = box.scrollHeight - fromEnd;
    if (lines.isTooMuch) this.unfollow();
    lines.cutAfter(this.lastSeen());
    this.show();
  }

  putAfter(part) {
    const { box, lines } = this;
    lines.append(part.text, part.end);
    const fromEnd = box.scrollHeight - box.scrollTop;
    lines.cutBefore(this.firstSeen());
    box.scrollTop = box.scrollHeight - fromEnd;
    if (part.end >= part.size) {
      this.follows = true;
      this.ask();
    }
    this.show();
  }

  firstSeen() {
    return this.lineAt(this.box.scrollTop);
  }

  lastSeen() {
    return this.lineAt(this.box.scrollTop + this.box.clientHeight);
  }

  /* The number of the line at a height, by halving. */
  lineAt(height) {
    const all = this.box.children;
    let low = 0, high = all.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (all[middle].offsetTop <= height) low = middle;
      else high = middle - 1;
    }
    return Number(all[low]?.dataset.line ?? 0);
  }

  async read(query) {
    this.reading = true;
    try {
      return await this.fetch("lines", query);
    } catch {
      this.say(this.dataset.wordsFailed);
      return null;
    } finally {
      this.reading = false;
    }
  }

  async fetch(what, query) {
    const answer = await fetch(`${this.dataset.url}/${what}?${new URLSearchParams(query)}`, { signal: this.stop.signal, headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.status);
    this.say("");
    return answer.json();
  }

  say(words) {
    this.note.textContent = words;
  }

  // ---- search ----

  async find(query, none) {
    this.search?.stop();
    const from = query.q ? this.chosen || 0 : 0;
    this.search = new LogSearch(query, (asked) => this.fetch("search", asked), () => this.showFound(search, none));
    const { search } = this;
    this.mark();
    try {
      const all = search.goOn();
      all.catch(() => {}); // it is awaited below
      while (search.busy && !search.lines.some((line) => line > from)) await Promise.race([all, pause()]);
      if (search.stopped) return;
      const line = search.nearest(from, 1);
      if (line) await this.goTo(line, !query.q);
      await all;
    } catch {
      if (!search.stopped) this.found.textContent = this.dataset.wordsFailed;
    }
  }

  async step(by) {
    const { search } = this;
    if (!search) return;
    const line = search.nearest(this.chosen, by);
    if (by > 0 && !search.busy && (line === undefined || line <= this.chosen)) await search.goOn().catch(() => {}); // it may have grown
    const there = search.nearest(this.chosen, by);
    if (there && !search.stopped) await this.goTo(there, document.activeElement !== this.field);
  }

  forget() {
    this.search?.stop();
    this.search = null;
    this.found.textContent = "";
    this.mark();
  }

  showFound(search, none) {
    if (search !== this.search) return;
    this.mark();
    const { lines, isDone, busy, searched, size } = search;
    const words = this.dataset, place = search.placeOf(this.chosen);
    const count = number(lines.length) + (search.isFull ? "+" : "");
    const so = place ? put(words.wordsPlace, { place: number(place), count }) : put(words.wordsCount, { count });
    const far = put(words.wordsSearching, { done: number(Math.floor(searched / MB)), size: number(Math.ceil(size / MB)) });
    this.found.textContent = isDone || !busy ? (lines.length ? so : none) : lines.length ? `${so} · ${far}` : far;
    for (const name of ["previous", "next"]) this.querySelector(`[data-log="${name}"]`).disabled = !lines.length;
  }

  /* Show in the lines that are here what was found. */
  mark() {
    for (const line of this.box.children) this.dress(line, Number(line.dataset.line));
  }

  dress(line, number) {
    line.classList.toggle("is-found", this.search?.known.has(number) ?? false);
    line.classList.toggle("is-chosen", number === this.chosen);
    if (this.times) line.dataset.time = showTime(this.times.get(number));
  }

  // ---- when it was written ----

  toggleTimes(button) {
    this.times = this.times ? null : new Map();
    button.setAttribute("aria-pressed", this.times !== null);
    this.box.classList.toggle("has-times", this.times !== null);
    this.say("");
    this.timed = null;
    this.showTimes();
  }

  /* Ask for what is not known yet of the bytes that are here, a part at a time. */
  async showTimes() {
    if (!this.times || this.timing || this.lines.end === null || !this.dataset.url) return;
    const { start, end } = this.lines;
    if (!this.timed || this.timed.end < start || this.timed.start > end || this.times.size > MOST_TIMES) {
      this.timed = { start, end: start };
      this.times.clear();
    }
    const known = this.timed, isEarlier = known.start > start;
    const [from, to] = isEarlier ? [start, known.start] : [known.end, end];
    if (from >= to) return;
    this.timing = true;
    const told = await this.fetch("times", { from, to }).catch(() => null);
    this.timing = false;
    if (!told || told.end <= from || !this.times || this.timed !== known) return;
    told.times.forEach((second, n) => this.times.has(told.line + n) || this.times.set(told.line + n, second));
    if (isEarlier) known.start = start;
    if (!isEarlier || told.end < to) known.end = told.end;
    this.mark();
    if (![...this.times.values()].some(Boolean)) this.say(this.dataset.wordsNoTimes);
    this.showTimes();
  }

  // ---- what people do ----

  choose(number) {
    if (!this.dataset.page) return;
    this.lines.find(this.chosen)?.classList.remove("is-chosen");
    this.chosen = number;
    this.lines.find(number)?.classList.add("is-chosen");
    const address = `${this.dataset.page}#L${number}`;
    history.replaceState(history.state, "", address);
    const link = this.querySelector('[data-log="link"]');
    link.disabled = false;
    link.dataset.copy = new URL(address, location.href).href;
    if (this.search) this.search.report();
  }

  press({ target, offsetX }) {
    const acts = {
      wrap: (button) => button.setAttribute("aria-pressed", this.box.classList.toggle("is-wrapped")),
      follow: () => (this.follow ? this.setFollow(false) : this.goToEnd()),
      next: () => this.step(1),
      previous: () => this.step(-1),
      errors: () => this.findErrors(),
      times: (button) => this.toggleTimes(button),
    };
    const button = target.closest("[data-log]");
    if (button) acts[button.dataset.log]?.(button);
    else if (target.parentElement === this.box && offsetX < parseFloat(getComputedStyle(target).paddingInlineStart)) this.choose(Number(target.dataset.line));
  }

  findErrors() {
    this.field.value = "";
    this.find({}, this.dataset.wordsNoErrors);
  }

  submit(event) {
    event.preventDefault();
    if (event.target.matches("[data-log-go]")) {
      const wanted = Number(event.target.querySelector("input").value);
      if (wanted > 0) this.goTo(wanted);
    } else if (this.field.value && this.field.value === this.search?.query.q) this.step(1);
    else if (this.field.value) this.find({ q: this.field.value }, this.dataset.wordsNone);
  }

  key(event) {
    if (!this.dataset.page || event.ctrlKey || event.metaKey || event.altKey) return;
    const writes = event.target.matches("input");
    const acts = writes ? { Escape: () => this.leaveField(event) } : {
      "/": () => this.field.select(),
      n: () => this.step(1),
      N: () => this.step(-1),
      Home: () => this.goTo(1),
      End: () => this.goToEnd(),
    };
    const act = acts[event.key] ?? (writes && event.key === "Enter" && event.shiftKey && event.target === this.field ? () => this.step(-1) : null);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  leaveField({ target }) {
    target.value = "";
    if (target === this.field) this.forget();
    this.box.focus();
  }

  /* Room for the widest number. */
  show() {
    this.box.style.setProperty("--digits", Math.max(String(this.lines.next - 1).length, 3));
    this.showTimes();
  }
}

/* In the person's zone, as wide as any other. */
const showTime = (second) => (second ? new Date((second + offsetOf(second)) * 1000).toISOString().slice(0, 19).replace("T", " ") : "–");
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
const number = (value) => value.toLocaleString(document.documentElement.lang || undefined);
const put = (words, values) => words.replace(/\{(\w+)\}/g, (_, name) => values[name]);

customElements.define("log-view", LogView);
