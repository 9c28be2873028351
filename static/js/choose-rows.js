/* Choosing rows of a list by their checkboxes. <input type="checkbox" data-choose-all="NAME"> chooses all of that name, shift a
 * range, [data-choose-none] nothing. [data-chosen-bar] shows while one is chosen, [data-chosen-count] says how many.
 * Rows may be replaced at any time, so nothing is held but the value of the last click.
 */
const whole = () => document.querySelector("[data-choose-all]");
const boxes = () => [...document.querySelectorAll(`input[type="checkbox"][name="${whole()?.dataset.chooseAll}"]`)];
let last = "";

function tell() {
  const all = whole(), rows = boxes(), bar = document.querySelector("[data-chosen-bar]");
  const count = rows.filter((box) => box.checked).length;
  if (bar) bar.hidden = count === 0;
  for (const place of document.querySelectorAll("[data-chosen-count]")) place.textContent = count;
  if (!all) return;
  all.checked = count > 0 && count === rows.length;
  all.indeterminate = count > 0 && count < rows.length;
}

function choose(checked, rows = boxes()) {
  for (const box of rows) box.checked = checked;
  tell();
}

document.addEventListener("click", ({ target, shiftKey }) => {
  if (target.closest("[data-choose-none]")) return choose(false);
  if (target.matches("[data-choose-all]")) return choose(target.checked);
  const rows = boxes(), here = rows.indexOf(target);
  if (here < 0) return;
  const there = rows.findIndex((box) => box.value === last);
  if (shiftKey && there >= 0) choose(target.checked, rows.slice(Math.min(here, there), Math.max(here, there) + 1));
  last = target.value;
  tell();
});
document.body.addEventListener("htmx:afterSettle", tell);
tell();
