/* <number-charts data-url="…/numbers" data-jobs="job-9,…" data-names data-live>: the numbers that jobs report, a chart for
 * each name (templates/numbers/_charts.html). What is drawn is read anew whenever the page around it was, while a job runs.
 */
import { StepPlot, tellNumber } from "./number-plot.js";

const POINTS = 400, ROWS = 60, AGAIN_MS = 10_000, COLOURS = 6, REST = 20;
const ORDER = [1, 3, 2, 4, 5, 6]; // of the colours: neighbours are told apart best
const fill = (words, params) => words.replace(/\{(\w+)\}/g, (whole, name) => params[name] ?? whole);

class NumberCharts extends HTMLElement {
  static observedAttributes = ["data-keep"];

  connectedCallback() {
    const on = (target, name, act) => target.addEventListener(name, act, { signal: this.stop.signal });
    this.stop = new AbortController();
    this.figures = new Map();
    this.names = this.dataset.names ? this.dataset.names.split(" ") : [];
    on(document.body, "htmx:afterSettle", () => "live" in this.dataset && Date.now() > this.restsUntil && this.load());
    on(this, "click", ({ target }) => target.closest("[data-unzoom]") && this.zoom(null));
    this.zoomed = null;
    this.load();
  }

  disconnectedCallback() {
    this.stop.abort();
    this.asked?.abort();
    clearTimeout(this.again);
    for (const { figure, plot } of this.figures.values()) {
      plot.remove();
      figure.remove();
    }
  }

  /* The page was drawn anew around it, as for a job that has ended. */
  attributeChangedCallback(name, before) {
    if (before === null || !this.isConnected) return;
    setTimeout(() => {
      this.disconnectedCallback();
      this.connectedCallback();
    });
  }

  async load() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    clearTimeout(this.again);
    const began = Date.now();
    this.restsUntil = Infinity;
    try {
      let answer = await this.ask(signal);
      const names = [...new Set(answer.numbers.map(({ name }) => name))].slice(0, Number(this.dataset.most));
      if (String(names) !== String(this.names)) {
        this.names = names;
        answer = await this.ask(signal);
      }
      this.curves = answer.numbers.filter(({ points }) => points);
      this.draw();
      this.restsUntil = Date.now() + REST * (Date.now() - began); // of many curves, which take long
    } catch (error) {
      if (error.name === "AbortError") return;
      this.dataset.state = "broken";
      this.again = setTimeout(() => this.load(), AGAIN_MS);
    }
  }

  async ask(signal) {
    const query = new URLSearchParams({ name: this.names.join(","), points: POINTS, ...(this.dataset.jobs && { jobs: this.dataset.jobs }) });
    const answer = await fetch(`${this.dataset.url}?${query}`, { headers: { Accept: "application/json" }, signal });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  }

  zoom(span) {
    this.zoomed = span;
    this.querySelector("[data-unzoom]").hidden = !span;
    this.draw();
  }

  draw() {
    this.dataset.state = "shown";
    const steps = this.curves.flatMap(({ points }) => points.map(({ step }) => step));
    const low = steps.reduce((one, other) => Math.min(one, other), Infinity), high = steps.reduce((one, other) => Math.max(one, other), -Infinity);
    this.span = this.zoomed ?? [low, high > low ? high : low + 1];
    this.who = nameCurves(this.curves);
    for (const name of this.names) this.drawOne(name, this.curves.filter((curve) => curve.name === name));
  }

  drawOne(name, curves) {
    if (!curves.length) return;
    if (!this.figures.has(name)) this.figures.set(name, this.begin(name));
    const one = this.figures.get(name);
    one.lines = curves.map((curve, place) => ({ curve, label: this.who(curve), colour: `curve-${ORDER[place % COLOURS]}`, dashed: place >= COLOURS }));
    one.steps = joinSteps(one.lines);
    one.plot.draw({ lines: one.lines, times: one.steps, span: this.span });
    const keys = one.lines.length > 1 ? one.lines.map(({ label, colour }) => makeKey(label, colour)) : [];
    one.figure.querySelector(".keys").replaceChildren(...keys);
    const says = this.say(one.lines);
    one.figure.querySelector(".chart-says").textContent = says;
    one.box.setAttribute("aria-label", `${name}. ${says}`);
    this.read(one, one.plot.u.cursor.idx);
    fillTable(one, this.dataset.wordsStep);
  }

  begin(name) {
    const figure = this.querySelector("template[data-part=figure]").content.firstElementChild.cloneNode(true);
    const box = figure.querySelector(".chart-box"), one = { figure, box, lines: [] };
    const region = figure.querySelector("[role=region]");
    figure.querySelector("h2").textContent = name;
    region.setAttribute("aria-label", `${name}. ${region.getAttribute("aria-label")}`);
    this.querySelector("[data-part=figures]").append(figure);
    one.plot = new StepPlot(box, { moved: (slot) => this.read(one, slot), brushed: (from, to) => this.zoom([from, to]) });
    figure.querySelector("details").addEventListener("toggle", () => fillTable(one, this.dataset.wordsStep));
    return one;
  }

  say(lines) {
    const lowest = lines.reduce((one, other) => (other.curve.min.value < one.curve.min.value ? other : one));
    const highest = lines.reduce((one, other) => (other.curve.max.value > one.curve.max.value ? other : one));
    const { last } = lines[0].curve, step = tellNumber(last.step);
    const told = { last: tellNumber(last.value), step, min: tellNumber(lowest.curve.min.value), max: tellNumber(highest.curve.max.value) };
    return fill(lines.length > 1 ? this.dataset.wordsMany : this.dataset.words, { ...told, count: lines.length, lowest: lowest.label, highest: highest.label });
  }

  /* slot: where the cursor is, or nothing. */
  read({ figure, lines, steps }, slot) {
    const [small, bold] = figure.querySelector(".chart-now").children, isThere = slot !== null && slot !== undefined;
    small.textContent = isThere ? fill(this.dataset.wordsAt, { step: tellNumber(steps[slot]) }) : "";
    const known = lines.map(({ values }) => values.slice(0, slot + 1).findLast((value) => value !== null) ?? null); // curves are thinned each by itself
    bold.textContent = isThere ? known.map((value) => (value === null ? "–" : tellNumber(value))).join(" · ") : "";
  }
}

/* How a curve is called among these: by its job where there are several, by its task where there are several. */
function nameCurves(curves) {
  const [jobs, tasks] = ["job", "task"].map((key) => new Set(curves.map((curve) => curve[key])).size);
  return ({ job, task }) => [jobs > 1 && job, tasks > 1 && task].filter(Boolean).join(" ");
}

/* Give each line a value for each step of any of them, null where it has none. Returns the steps. */
function joinSteps(lines) {
  const steps = [...new Set(lines.flatMap(({ curve }) => curve.points.map(({ step }) => step)))].sort((one, other) => one - other);
  for (const line of lines) {
    const values = new Map(line.curve.points.map(({ step, value }) => [step, value]));
    line.values = steps.map((step) => values.get(step) ?? null);
  }
  return steps;
}

function makeKey(label, colour) {
  const key = document.createElement("li");
  key.append(Object.assign(document.createElement("span"), { className: `swatch k${colour.at(-1)}` }), label);
  return key;
}

/* The newest first, thinned to ROWS. */
function fillTable({ figure, lines, steps }, wordsStep) {
  const fold = figure.querySelector("details");
  if (!fold.open) return;
  const apart = Math.max(1, Math.ceil(steps.length / ROWS));
  const slots = steps.map((step, slot) => slot).filter((slot) => (steps.length - 1 - slot) % apart === 0).reverse();
  const name = figure.querySelector("h2").textContent;
  fold.querySelector("thead").replaceChildren(makeRow("col", [wordsStep, ...lines.map(({ label }) => label || name)]));
  fold.querySelector("tbody").replaceChildren(...slots.map((slot) => makeRow("row", [tellNumber(steps[slot]), ...lines.map(({ values }) => (values[slot] === null ? "–" : tellNumber(values[slot])))])));
}

function makeRow(scope, words) {
  const line = document.createElement("tr");
  line.append(
    ...words.map((textContent, place) => {
      const isHead = scope === "col" || place === 0;
      return Object.assign(document.createElement(isHead ? "th" : "td"), { textContent, className: "num", ...(isHead && { scope }) });
    }),
  );
  return line;
}

customElements.define("number-charts", NumberCharts);
