/* One small chart, drawn by uPlot (static/vendor) into an element. Colours are those of tokens.css, read anew when the look changes.
 *
 * shown: {lines, bands, times, holes: [[from, to]], marks: [{at, words}], limit, limitWords, top, span: [from, to], scale: [unit, factor]}
 */
import { scaleOf } from "./chart-data.js";
import { offsetOf, timeZone } from "./time-zone.js";

const { lang } = document.documentElement, isChinese = lang.startsWith("zh");
const number = new Intl.NumberFormat(lang, { maximumSignificantDigits: 3, maximumFractionDigits: 2, roundingPriority: "lessPrecision" });
const percent = new Intl.NumberFormat(lang, { style: "percent", maximumSignificantDigits: 2 });
const clock = new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone });
const day = new Intl.DateTimeFormat(lang, { month: "short", day: "numeric", timeZone });
const LINE_COLOURS = ["curve-1", "curve-3", "curve-2", "curve-4"], APART_COLOURS = ["curve-3", "curve-4", "curve-5", "curve-6"];
const MINUTE = 60, HOUR = 3600, DAY = 86_400, GAP_PX = 7;
const STEPS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY];
const dots = () => devicePixelRatio || 1;

const probe = document.createElement("i");
const colours = new Map();
export const colour = (name) => {
  if (!probe.isConnected) [...plots][0].box.closest(".charts").append(Object.assign(probe, { hidden: true }));
  if (!colours.has(name)) {
    Object.assign(probe.style, { color: `var(--${name})`, forcedColorAdjust: "none" });
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
};
const faded = (name, percent) => colour(name).replace(/^rgb\(([^)]*)\)$/, `rgb($1 / ${percent}%)`).replaceAll(",", " ");
const plots = new Set();
for (const question of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  matchMedia(question).addEventListener("change", () => {
    colours.clear();
    for (const plot of plots) plot.u?.redraw(false);
  });
}

export function show([unit, factor], value, unknown = "?") {
  if (value === null || value === undefined) return unknown;
  return unit === "%" ? percent.format(value / 100).replace(/(\d)%/, `$1${isChinese ? "" : "\u00a0"}%`) : `${number.format(value * factor)}\u00a0${unit}`.trim();
}
export const tell = (metric, value, unknown) => show(scaleOf(metric, value ?? 0), value, unknown);
const clockOf = (seconds) => clock.format(new Date(1000 * seconds));
/* A moment of a chart: with its day where the steps are so long that the chart has many days. */
export const LONG_STEP_S = 300;
export const whenOf = (seconds, step) => (step > LONG_STEP_S ? `${day.format(new Date(1000 * seconds))} ${clockOf(seconds)}` : clockOf(seconds));

export class Plot {
  constructor(box, { moved, brushed }) {
    Object.assign(this, { box, moved, brushed, shape: "" });
    this.sized = new ResizeObserver(() => this.u?.setSize(this.size()));
    this.sized.observe(box);
    box.addEventListener("keydown", (event) => this.step(event));
    plots.add(this);
  }

  remove() {
    this.sized.disconnect();
    this.u?.destroy();
    plots.delete(this);
  }

  /* Lines may come and go, so that uPlot is made anew when their kinds change; else it gets new data. */
  draw(shown, withTimes) {
    this.shown = shown;
    let main = 0, apart = 0;
    for (const line of shown.lines) line.colour = line.name ? APART_COLOURS[apart++ % 4] : LINE_COLOURS[main++ % 4];
    const shape = `${shown.lines.map(({ metric, name }) => `${metric} ${name ?? ""}`)} ${shown.bands.length} ${withTimes}`;
    const data = [shown.times, ...shown.lines.map(({ values }) => values), ...shown.bands];
    if (shape === this.shape) this.u.setData(data);
    else {
      this.u?.destroy();
      this.u = new uPlot(this.options(shown, withTimes), data, this.box);
      this.shape = shape;
    }
  }

  size() {
    return { width: Math.max(this.box.clientWidth, 120), height: Number(this.box.dataset.height) + (this.withTimes ? 18 : 0) };
  }

  options({ lines, bands }, withTimes) {
    this.withTimes = withTimes;
    const series = lines.map((line) => {
      const fill = lines.length === 1 && !bands.length ? () => faded(line.colour, 13) : undefined;
      return { stroke: () => colour(line.colour), fill, width: 1.5, points: { show: alone, size: 3 } };
    });
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    return {
      ...this.size(),
      padding: [8, 18, withTimes ? 0 : 4, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: 5 }, sync: { key: "charts", scales: ["x", null] }, points: { size: 7, width: 2, stroke: (u, i) => colour(lines[i - 1]?.colour ?? "ink"), fill: () => colour("surface"), show: (u, i) => i <= lines.length && undefined } },
      scales: { x: { range: () => this.shown.span }, y: { range: () => [0, this.shown.top] } },
      series: [{}, ...series, ...bands.map(() => edge)],
      bands: bands.length ? [{ series: [lines.length + 1, lines.length + 2], fill: () => faded("curve-1", 20) }] : [],
      axes: [this.timeAxis(withTimes), this.valueAxis()],
      hooks: { drawClear: [(u) => this.under(u)], draw: [(u) => this.over(u)], setCursor: [(u) => this.moved(u.cursor.idx)], setSelect: [(u) => this.select(u)] },
    };
  }

  timeAxis(withTimes) {
    const splits = (u, axis, low, high) => {
      const step = STEPS.find((one) => (high - low) / one <= Math.max(u.width / 90, 2)) ?? STEPS.at(-1);
      const zone = offsetOf(low);
      const first = Math.ceil((low + zone) / step) * step - zone;
      return Array.from({ length: Math.max(Math.floor((high - first) / step) + 1, 0) }, (_, i) => first + i * step);
    };
    const words = (u, times) => times.map((time, i) => (times[1] - times[0] >= DAY || (i && clockOf(time) === "00:00") ? day.format(new Date(1000 * time)) : clockOf(time)));
    return { size: withTimes ? 22 : 0, gap: 4, font: font(), stroke: () => colour("muted"), grid: { show: false }, ticks: { show: false }, splits, values: withTimes ? words : () => [] };
  }

  valueAxis() {
    const words = (u, splits) => splits.map((value, i) => (i === splits.length - 1 ? show(this.shown.scale, value) : number.format(value * this.shown.scale[1])));
    return { size: 58, gap: 6, font: font(), stroke: () => colour("muted"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, splits: () => [0, this.shown.top / 2, this.shown.top], values: words };
  }

  under(u) {
    for (const [from, to] of this.shown.holes) hatch(u, ...this.cut(u, from, to));
    for (const { at } of this.marksIn()) vertical(u, u.valToPos(at, "x", true), "muted", [2, 2]);
  }

  over(u) {
    const { ctx, bbox } = u;
    ctx.save(); // uPlot remembers its font
    let free = 0;
    for (const { at, words } of this.box.dataset.marks === undefined ? [] : this.marksIn()) {
      const left = u.valToPos(at, "x", true) + 4 * dots();
      ctx.font = font(true);
      const width = ctx.measureText(words).width;
      if (left < free || left + width > bbox.left + bbox.width) continue;
      write(u, words, left, bbox.top + 9 * dots(), "muted");
      free = left + width + GAP_PX * dots();
    }
    if (this.shown.limit) this.drawLimit(u);
    this.nameLines(u);
    ctx.restore();
  }

  /* Lines that stand apart have their names under their ends. */
  nameLines(u) {
    for (const { name, values, colour } of this.shown.lines) {
      const last = values.findLastIndex((value) => value !== null);
      if (!name || last < 0) continue;
      u.ctx.font = font(true, 600);
      const y = Math.min(u.valToPos(values[last], "y", true) + 14 * dots(), u.bbox.top + u.bbox.height - 3 * dots());
      write(u, name, u.bbox.left + u.bbox.width - u.ctx.measureText(name).width - 2 * dots(), y, colour, 600);
    }
  }

  drawLimit(u) {
    const { ctx, bbox } = u, y = u.valToPos(this.shown.limit, "y", true);
    ctx.save();
    Object.assign(ctx, { strokeStyle: colour("ink"), lineWidth: 1.25 * dots() });
    ctx.setLineDash([5 * dots(), 3 * dots()]);
    line(ctx, bbox.left, y, bbox.left + bbox.width, y);
    ctx.restore();
    const words = this.shown.limitWords.replace("{limit}", tell(this.shown.lines[0].metric, this.shown.limit));
    ctx.font = font(true, 600);
    write(u, words, bbox.left + bbox.width - ctx.measureText(words).width - 2 * dots(), y - 4 * dots(), "ink", 600);
  }

  marksIn() {
    const [from, to] = this.shown.span;
    return this.shown.marks.filter(({ at }) => at >= from && at <= to);
  }

  cut(u, from, to) {
    const [low, high] = this.shown.span;
    return [u.valToPos(Math.max(from, low), "x", true), u.valToPos(Math.min(to, high), "x", true)];
  }

  select(u) {
    const { left, width } = u.select;
    if (width < 5) return;
    this.brushed(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  step(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || !this.u) return;
    event.preventDefault();
    const last = this.shown.times.length - 1;
    const slot = Math.min(Math.max((this.u.cursor.idx ?? last) + moves[event.key], 0), last);
    const left = this.u.valToPos(this.shown.times[slot], "x"); // outside of the plot there is no cursor
    this.u.setCursor({ left: Math.min(Math.max(left, 0), this.u.over.clientWidth), top: 10 });
  }
}

/* A value between two gaps has no line; then it is a point. */
const alone = (u, i, from, to, gaps) => gaps !== null && u.data[i].slice(from, to + 1).filter((value) => value !== null).length < 3;
export const font = (onCanvas = false, weight = 400) => `${weight} ${onCanvas ? 11 * dots() : 11}px ${getComputedStyle(document.body).fontFamily}`;

function line(ctx, ...[x, y, right, bottom]) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(right, bottom);
  ctx.stroke();
}

function vertical({ ctx, bbox }, x, name, dash) {
  ctx.save();
  Object.assign(ctx, { strokeStyle: colour(name), lineWidth: dots() });
  ctx.setLineDash(dash.map((length) => length * dots()));
  line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  ctx.restore();
}

function hatch({ ctx, bbox }, left, right) {
  const { top, height } = bbox, apart = 5 * dots();
  if (right - left < 1) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, height);
  ctx.clip();
  Object.assign(ctx, { strokeStyle: faded("stale", 60), lineWidth: dots() });
  for (let x = Math.floor((left - height) / apart) * apart; x < right; x += apart) line(ctx, x, top + height, x + height, top);
  ctx.restore();
}

function write({ ctx }, words, x, y, name, weight) {
  ctx.save();
  Object.assign(ctx, { font: font(true, weight), strokeStyle: colour("surface"), lineWidth: 3 * dots(), lineJoin: "round", fillStyle: colour(name), textAlign: "left", textBaseline: "alphabetic" });
  ctx.strokeText(words, x, y);
  ctx.fillText(words, x, y);
  ctx.restore();
}
