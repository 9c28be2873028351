/* The figures of charts as a table and as a file, for those who want the numbers. */
import { tell, whenOf } from "./chart-plot.js";

const ROWS = 60, KEEP_MS = 10_000;

/* Write the newest first into the <table> of a fold, thinned to ROWS. drawn: [{figure, lines}]. */
export function fillTable(fold, curves, drawn, wordsTime) {
  const apart = Math.max(1, Math.ceil(curves.slots / ROWS));
  const slots = Array.from({ length: Math.ceil(curves.slots / apart) }, (_, i) => i * apart).reverse();
  const values = (slot) => drawn.map(({ lines }) => lines.filter(({ name }) => !name).map(({ metric, values }) => tell(metric, values[slot])).join(" · "));
  const head = row("col", [wordsTime, ...drawn.map(({ figure }) => figure.querySelector("h3").textContent)]);
  fold.querySelector("thead").replaceChildren(head);
  fold.querySelector("tbody").replaceChildren(...slots.map((slot) => row("row", [whenOf(curves.from + slot * curves.step, curves.step), ...values(slot)])));
}

function row(scope, words) {
  const line = document.createElement("tr");
  line.append(
    ...words.map((textContent, i) => {
      const isHead = scope === "col" || i === 0;
      return Object.assign(document.createElement(isHead ? "th" : "td"), { textContent, className: i ? "num" : "", ...(isHead && { scope }) });
    }),
  );
  return line;
}

export async function saveCsv(url, name) {
  const answer = await fetch(url, { headers: { Accept: "text/csv" } });
  if (!answer.ok) return;
  const href = URL.createObjectURL(await answer.blob());
  Object.assign(document.createElement("a"), { href, download: `${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), KEEP_MS);
}
