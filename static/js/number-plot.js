/* One chart of reported numbers: values over steps, a line for each task or job. Colours and keys are those of other charts.
 *
 * shown: {lines: [{values, colour, dashed}], times: steps, span: [from, to]}
 */
import { Plot, colour, font } from "./chart-plot.js";

const { lang } = document.documentElement;
const number = new Intl.NumberFormat(lang, { maximumSignificantDigits: 6 }), short = new Intl.NumberFormat(lang, { maximumSignificantDigits: 4, notation: "compact" });
const tiny = new Intl.NumberFormat(lang, { maximumSignificantDigits: 4, notation: "scientific" });
const FEW = 3, MOST_TINY = 1e-4, MOST_LARGE = 1e9;

export function tellNumber(value) {
  if (value === null || value === undefined) return "?";
  const size = Math.abs(value);
  return (value !== 0 && size < MOST_TINY) || size >= MOST_LARGE ? tiny.format(value) : number.format(value);
}

export class StepPlot extends Plot {
  draw(shown) {
    this.shown = shown;
    const shape = shown.lines.map(({ label, values }) => `${label} ${isSparse(values)}`).join();
    const data = [shown.times, ...shown.lines.map(({ values }) => values)];
    if (shape === this.shape) return this.u.setData(data);
    this.u?.destroy();
    this.u = new uPlot(this.options(shown), data, this.box);
    this.shape = shape;
  }

  options({ lines }) {
    this.withTimes = true;
    const series = lines.map((line) => ({
      stroke: () => colour(line.colour), width: 1.5, spanGaps: true, dash: line.dashed ? [5, 3] : undefined, points: { show: isSparse(line.values), size: 5 },
    }));
    return {
      ...this.size(),
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: 5 }, sync: { key: "numbers", scales: ["x", null] }, points: { size: 7, width: 2, stroke: (u, i) => colour(lines[i - 1]?.colour ?? "ink"), fill: () => colour("surface") } },
      scales: { x: { time: false, range: () => this.shown.span }, y: { range: (u, low, high) => uPlot.rangeNum(low ?? 0, high ?? 1, 0.08, true) } },
      series: [{}, ...series],
      axes: [axis({ size: 26, values: (u, steps) => steps.map((step) => short.format(step)), space: 60 }), axis({ size: 62, values: (u, values) => values.map((value) => (value !== 0 && Math.abs(value) < MOST_TINY ? tiny : short).format(value)), space: 32, grid: { stroke: () => colour("line"), width: 1 } })],
      hooks: { setCursor: [(u) => this.moved(u.cursor.idx)], setSelect: [(u) => this.select(u)] },
    };
  }
}

const isSparse = (values) => values.filter((value) => value !== null && value !== undefined).length < FEW;
const axis = (more) => ({ gap: 4, font: font(), stroke: () => colour("muted"), grid: { show: false }, ticks: { show: false }, ...more });
