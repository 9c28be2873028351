/* <live-charts data-urls="…/metrics …" data-watch="job-412" data-begin data-end>: curves of one subject (templates/_charts.html).
 * Each <figure data-chart="metric …"> in it is one chart; its sentence, its value and its limit are written into it. What was
 * before is fetched; then the live socket brings ticks: {"watch": [subject]} asks, "live:samples" has one. After a gap
 * everything is fetched again. All charts of a page share the time axis, the cursor and the range.
 */
import { addTick, buildLines, findHoles, newestOf, readAnswers, roundUp, scaleOf, summarize, timesOf } from "./chart-data.js";
import { fillTable, saveCsv } from "./chart-table.js";
import { LONG_STEP_S, Plot, show, tell, whenOf } from "./chart-plot.js";

const SLOTS = 600, LEAST_STEP_S = 10, STALE_S = 30, GROWTH_S = 20, AGAIN_MS = 10_000, UNWATCHED_MS = 30_000;
// GROWTH_S: how busy something is takes two samples to be known
let ahead = 0; // of this clock before the platform's
const now = () => (Date.now() - ahead) / 1000;
const iso = (seconds) => new Date(1000 * seconds).toISOString();
const fill = (words, params) => words.replace(/\{(\w+)\}/g, (whole, name) => params[name] ?? whole);

class LiveCharts extends HTMLElement {
  static observedAttributes = ["data-keep"];

  connectedCallback() {
    const on = (target, name, act) => target.addEventListener(name, act, { signal: this.stop.signal });
    this.stop = new AbortController();
    ahead = Date.now() - Date.parse(this.dataset.now);
    this.figures = [...this.querySelectorAll("[data-chart]")].map((figure) => this.begin(figure));
    on(document.body, "live:open", () => this.watch());
    for (const gap of ["live:refresh", "live:samples-missed"]) on(document.body, gap, () => this.load());
    on(document.body, "live:samples", ({ detail }) => this.hear(detail));
    on(this, "change", ({ target }) => (target.name === "range" ? this.zoom(null) : this.draw()));
    on(this, "click", ({ target }) => target.closest("[data-unzoom]") ? this.zoom(null) : target.closest("[data-part=csv]") && this.saveCsv());
    on(this.piece("twin"), "toggle", () => this.fillTable());
    this.clock = setInterval(() => this.isActive && this.curves && this.age(), AGAIN_MS);
    this.zoom(null);
    this.watch();
  }

  disconnectedCallback() {
    this.stop.abort();
    clearInterval(this.clock);
    for (const { plot } of this.figures) plot.remove();
    this.send({ unwatch: this.subjects });
  }

  /* The page was drawn anew around it, as for a job that has ended. */
  attributeChangedCallback(name, before) {
    if (before === null || !this.isConnected) return;
    setTimeout(() => {
      this.disconnectedCallback();
      this.connectedCallback();
    });
  }

  piece(name) {
    return this.querySelector(`[data-part="${name}"]`);
  }

  get subjects() {
    return this.dataset.watch?.split(" ") ?? [];
  }

  get isActive() {
    return !this.dataset.end;
  }

  send(detail) {
    if (this.subjects.length) document.body.dispatchEvent(new CustomEvent("live:send", { detail }));
  }

  watch() {
    if (this.isActive) this.send({ watch: this.subjects });
  }

  /* Whether each tick is put into its step; a tick would say little of a step of hours. */
  get isFollowed() {
    return this.subjects.length > 0 && this.curves.step <= LONG_STEP_S;
  }

  get showsNow() {
    return this.isActive && !this.zoomed && this.curves.step <= LONG_STEP_S;
  }

  /* Time passes: what is not seen is hatched, and what is not followed is fetched again. */
  age() {
    if (this.isFollowed || Date.now() - this.loaded < Math.max(UNWATCHED_MS, 100 * this.curves.step)) this.draw();
    else if (!document.hidden && !this.zoomed) this.load();
  }

  begin(figure) {
    const box = figure.querySelector(".chart-box");
    const plot = new Plot(box, { moved: (slot) => this.read(slot), brushed: (from, to) => this.zoom([from, to]) });
    return { figure, box, plot, metrics: figure.dataset.chart.split(" ") };
  }

  // ---- what is asked for ----

  zoom(span) {
    this.zoomed = span;
    this.querySelector("[data-unzoom]")?.toggleAttribute("hidden", !span);
    this.load();
  }

  get span() {
    if (this.zoomed) return this.zoomed;
    const end = this.isActive ? now() : Date.parse(this.dataset.end) / 1000;
    const begin = this.dataset.begin ? Date.parse(this.dataset.begin) / 1000 : -Infinity;
    const range = Number(this.querySelector("[name=range]:checked")?.value) || (this.dataset.begin ? Infinity : 86_400);
    return [Math.max(begin, end - range), end];
  }

  async load() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked, [from, to] = this.span;
    const step = LEAST_STEP_S * Math.ceil((to - from) / SLOTS / LEAST_STEP_S);
    const query = new URLSearchParams({ from: iso(from), to: iso(Math.max(to, from + step)), step });
    try {
      this.query = query;
      const answers = await Promise.all(this.dataset.urls.split(" ").map((url) => fetchJson(`${url}?${query}`, signal)));
      if (signal.aborted) return;
      this.curves = readAnswers(answers);
      this.loaded = Date.now();
      this.draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.dataset.state = "broken";
      clearTimeout(this.again);
      this.again = setTimeout(() => this.isConnected && this.load(), AGAIN_MS);
    }
  }

  hear(tick) {
    if (!this.subjects.includes(tick.of) || !this.curves || this.zoomed || !this.isFollowed) return;
    const [from, to] = this.span;
    const known = addTick(this.curves, tick, to - from + this.curves.step);
    if (known && this.curves.slots < 3 * SLOTS) requestAnimationFrame(() => this.draw());
    else this.load();
  }

  // ---- what is shown ----

  draw() {
    const { curves } = this;
    if (!curves) return;
    const apart = [this.chooseRanks(), ...(this.dataset.apart?.split(" ") ?? [])];
    const drawn = this.figures.map((one) => ({ ...one, ...buildLines(curves, one.metrics, apart, "sums" in this.dataset) }));
    const known = drawn.filter(({ lines }) => lines.some(({ values }) => values.some((value) => value !== null)));
    for (const one of drawn) one.figure.hidden = !known.includes(one);
    this.dataset.state = known.length ? "shown" : "empty";
    this.drawn = known;
    this.holes = [];
    for (const one of known) this.drawOne(one, one === known.at(-1));
    this.tellGaps();
    this.tellOlder();
    this.piece("simulated").hidden = !curves.series.some(({ source }) => source === "simulated");
    this.read(known[0]?.plot.u.cursor.idx);
  }

  /* Offers each card or task of many to be drawn apart. Returns the name of the chosen one. */
  chooseRanks() {
    const names = [...new Set(this.curves.series.filter(({ metric }) => metric === this.figures[0].metrics[0]).map(({ name }) => name))];
    const select = this.querySelector("[name=rank]"), [all, ...known] = select.options;
    this.piece("ranks").hidden = names.length < 2 || "sums" in this.dataset;
    if (String(known.map(({ value }) => value)) !== String(names)) select.replaceChildren(all, ...names.map((name) => new Option(name, name, false, name === select.value)));
    return select.value;
  }

  drawOne({ figure, box, plot, lines, bands, metrics }, isLast) {
    const { curves } = this, [from, to] = this.span;
    const values = [...lines.map((line) => line.values), ...bands].flat().filter((value) => value !== null);
    if (figure.dataset.limitMetric) lines[0].limit = newestOf(curves, figure.dataset.limitMetric);
    const limit = figure.dataset.limitWords ? lines[0].limit : null;
    const begin = this.dataset.begin ? Date.parse(this.dataset.begin) / 1000 : 0;
    const since = begin || curves.from + curves.step * lines[0].values.findIndex((value) => value !== null);
    const holes = "sparse" in figure.dataset ? [] : findHoles(curves, lines[0].values, Math.max(since + STALE_S, from), this.isActive ? Math.min(now(), to) : to);
    if (holes.length > this.holes.length) this.holes = holes;
    const most = Math.max(...values, limit ?? 0), scale = scaleOf(metrics[0], most);
    const top = Number(figure.dataset.top) || roundUp((limit === most ? 1.25 : 1.02) * most, scale);
    plot.draw({ lines, bands, times: timesOf(curves), holes, marks: this.marks(), limit, limitWords: figure.dataset.limitWords, top, span: [from, Math.max(to, from + 60)], scale }, isLast);
    const told = summarize(curves, { lines, bands }, begin && Math.max(begin + GROWTH_S, from), to);
    figure.querySelector(".chart-says").textContent = told ? this.say(figure, told, lines[0]) : "";
    box.setAttribute("aria-label", `${figure.querySelector("h3").textContent}. ${figure.querySelector(".chart-says").textContent}`);
  }

  say({ dataset }, { mean, max, seen }, { metric, count, limit }) {
    const words = !limit && dataset.words.includes("{limit}") ? this.dataset.wordsPlain : count > 1 && dataset.wordsMany ? dataset.wordsMany : dataset.words;
    return fill(words, { mean: tell(metric, mean), max: tell(metric, max), seen: show(["%", 1], Math.floor(100 * seen)), count, limit: tell(metric, limit) });
  }

  marks() {
    const marks = JSON.parse(document.getElementById(this.dataset.marks)?.textContent ?? "[]");
    return marks.map(({ at, words }) => ({ at: Date.parse(at) / 1000, words }));
  }

  /* slot: where the cursor is, null for now. */
  read(slot) {
    const { curves } = this;
    for (const { figure, lines } of this.drawn ?? []) {
      const last = lines[0].values.findLastIndex((value) => value !== null);
      const isFresh = this.showsNow && now() - (curves.from + (last + 1) * curves.step) < Math.max(STALE_S, curves.step);
      const at = slot ?? (isFresh ? last : null);
      const words = slot === null || slot === undefined ? (this.showsNow ? this.dataset.wordsNow : "") : fill(this.dataset.wordsAt, { time: whenOf(curves.from + (slot + 0.5) * curves.step, curves.step) });
      const values = lines.filter(({ name }) => !name).map(({ metric, values }) => tell(metric, at === null ? null : values[at], "sparse" in figure.dataset ? "–" : "?"));
      const [small, bold] = figure.querySelector(".chart-now").children;
      small.textContent = words;
      bold.textContent = words ? values.join(" · ") : "";
    }
  }

  tellGaps() {
    const when = (seconds) => whenOf(seconds, this.curves.step);
    const told = this.holes.slice(-3).map(([from, to]) => {
      const why = this.curves.gaps.find((gap) => gap.from < to && gap.to > from)?.why;
      if (when(from) === when(to)) return fill(why ? "{from}: {why}" : this.dataset.wordsShort, { from: when(from), why });
      return fill(why ? "{from}–{to}: {why}" : this.dataset.wordsGap, { from: when(from), to: when(to), why });
    });
    this.piece("gaps").replaceChildren(...told.map((words) => Object.assign(document.createElement("li"), { textContent: words })));
  }

  /* Where the part comes from that the platform keeps no longer. */
  tellOlder() {
    this.piece("older").hidden = !this.curves.older;
    this.piece("older").textContent = this.curves.older?.says ?? "";
  }

  saveCsv() {
    saveCsv(`${this.dataset.urls}?${this.query}`, this.subjects.join("-") || "curves");
  }

  fillTable() {
    if (this.piece("twin").open && this.drawn) fillTable(this.piece("twin"), this.curves, this.drawn, this.dataset.wordsTime);
  }
}

async function fetchJson(url, signal) {
  const answer = await fetch(url, { headers: { Accept: "application/json" }, signal });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

customElements.define("live-charts", LiveCharts);
