/* The numbers behind charts: answers of …/metrics as columns with one slot a step, which live ticks grow. No DOM here.
 * null is what is not known. It is never filled, and never counted as 0.
 */
const GB = 2 ** 20 / 1e9, MB_S = 2 ** 10 / 1e6;
const SCALES = [
  [/_percent$/, () => ["%", 1]],
  [/_mib$/, (top) => (top * GB < 1 ? ["MB", GB * 1000] : ["GB", GB])],
  [/_kib_s$/, (top) => (top * MB_S < 1 ? ["kB/s", MB_S * 1000] : top * MB_S < 1000 ? ["MB/s", MB_S] : ["GB/s", MB_S / 1000])],
  [/_c$/, () => ["°C", 1]],
  [/_w$/, () => ["W", 1]],
  [/_per_s$/, () => ["/s", 1]],
  [/_ms$/, (top) => (top < 10_000 ? ["ms", 1] : ["s", 0.001])],
];

/* Several answers of one span and step, as one. */
export function readAnswers(answers) {
  const [{ from, step_s }] = answers;
  const slots = Math.max(...answers.flatMap(({ series }) => series.map(({ values }) => values.length)), 0);
  return {
    from: Date.parse(from) / 1000,
    step: step_s,
    slots,
    series: answers.flatMap(({ series }) => series.map((one) => ({ ...one, values: [...one.values], ticks: 0 }))),
    older: answers.map(({ older }) => older).find((older) => older),
    gaps: answers.flatMap(({ gaps }) => gaps.map((gap) => ({ ...gap, from: Date.parse(gap.from) / 1000, to: Date.parse(gap.to) / 1000 }))),
  };
}

/* Put a tick into its slot, as the mean of the slot's ticks. Returns false if it tells of something that is not here. */
export function addTick(curves, { at, values }, span) {
  const slot = Math.floor((Date.parse(at) / 1000 - curves.from) / curves.step);
  if (slot < 0) return true;
  const begins = slot >= curves.slots;
  while (curves.slots <= slot) {
    for (const one of curves.series) one.values.push(null);
    curves.slots += 1;
  }
  let known = true;
  for (const [key, metrics] of Object.entries(values)) {
    for (const [metric, value] of Object.entries(metrics)) {
      const one = curves.series.find((one) => one.key === key && one.metric === metric);
      if (!one) known &&= value === null;
      else put(one, slot, value, begins);
    }
  }
  cutFront(curves, span);
  return known;
}

function put(one, slot, value, begins) {
  if (value === null) return;
  one.ticks = begins ? 0 : one.ticks || (one.values[slot] === null ? 0 : 1);
  one.values[slot] = ((one.values[slot] ?? 0) * one.ticks + value) / (one.ticks + 1);
  one.ticks += 1;
}

function cutFront(curves, span) {
  const extra = span ? curves.slots - Math.ceil(span / curves.step) : 0;
  if (extra <= 0) return;
  for (const one of curves.series) one.values.splice(0, extra);
  curves.slots -= extra;
  curves.from += extra * curves.step;
}

/* What one chart draws: a line for each metric and for each series that stands apart, and of many the band that they lie in. */
export function buildLines(curves, metrics, apart, sums) {
  const lines = [], bands = [];
  for (const metric of metrics) {
    const all = curves.series.filter((one) => one.metric === metric);
    if (!all.length) continue;
    const columns = all.map(({ values }) => values);
    const count = Math.max(...join(columns, (known) => known.length)), many = count > 1 && !sums;
    lines.push({ metric, count, limit: limitOf(all, sums), values: join(columns, many ? mean : sums ? sum : first) });
    if (many && metrics.length === 1) bands.push(join(columns, (known) => Math.max(...known)), join(columns, (known) => Math.min(...known)));
    for (const one of all) if (many && (apart.includes(one.name) || apart.includes(one.key))) lines.push({ metric, name: one.name, values: one.values });
  }
  return { lines, bands };
}

/* The sum of all series of a metric, as far as it is known lately. */
export function newestOf(curves, metric) {
  const all = curves.series.filter((one) => one.metric === metric).map(({ values }) => values.findLast((value) => value !== null));
  return all.length && all.every((value) => value !== undefined) ? all.reduce((one, other) => one + other, 0) : null;
}

export const timesOf = (curves) => Array.from({ length: curves.slots }, (_, slot) => curves.from + (slot + 0.5) * curves.step);

const first = ([value]) => value;
const sum = (known, all) => (known.length < all ? null : known.reduce((one, other) => one + other, 0));
const mean = (known) => known.reduce((one, other) => one + other, 0) / known.length;

function join(columns, act) {
  return columns[0].map((_, slot) => {
    const known = columns.map((values) => values[slot]).filter((value) => value !== null && value !== undefined);
    return known.length ? act(known, columns.length) : null;
  });
}

function limitOf(all, sums) {
  const limits = all.map(({ limit }) => limit).filter((limit) => limit);
  return limits.length ? (sums ? sum(limits) : Math.max(...limits)) : null;
}

/* Mean, peak and how much was seen; begin: since when something could have been seen, end: until when. null of nothing.
 * The first and the last step may be too young to have been seen.
 */
export function summarize(curves, { lines, bands }, begin, end) {
  const { values } = lines[0];
  const since = begin ? Math.max(0, Math.ceil((begin - curves.from) / curves.step)) : values.findIndex((value) => value !== null);
  const until = Math.min(curves.slots, Math.floor((end - curves.from) / curves.step) - 1);
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  const seen = values.slice(Math.max(since, 0), until).filter((value) => value !== null).length;
  const peaks = (bands[0] ?? values).filter((value) => value !== null);
  return { mean: mean(known), max: Math.max(...peaks), seen: until > since ? seen / (until - since) : 1 };
}

/* Spans of at least two slots in which nothing is known, up to `end`: [from, to] in seconds. */
export function findHoles(curves, values, begin, end) {
  const holes = [];
  let since = null;
  const close = (until) => {
    if (since !== null && until - since >= 2 * curves.step) holes.push([since, until]);
    since = null;
  };
  for (let slot = 0; slot < curves.slots; slot++) {
    const from = curves.from + slot * curves.step;
    if (values[slot] !== null) close(from);
    else if (from >= begin - curves.step && from < end) since ??= Math.max(from, begin);
  }
  close(end);
  const last = values.findLastIndex((value) => value !== null);
  const until = curves.from + (curves.slots || 0) * curves.step;
  if (last === curves.slots - 1 && end - until > 3 * curves.step) holes.push([until, end]);
  return holes;
}

/* How a metric is written where `top` is the most: its unit and the number that it is multiplied by. */
export function scaleOf(metric, top) {
  return SCALES.find(([names]) => names.test(metric))?.[1](top) ?? ["", 1];
}

/* The next number that looks well at the top of an axis. */
export function roundUp(value, [, factor]) {
  const shown = value * factor || 1, power = 10 ** Math.floor(Math.log10(shown));
  return (power * [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((one) => one * power >= shown)) / factor;
}
