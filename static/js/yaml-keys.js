/* <textarea data-keys="id of a JSON script" data-list="id of a listbox">: offers the keys of a job file, and the words of a
 * value, while one is typed, and by Ctrl-Space all that fit. The text keeps the focus and says the chosen option by
 * aria-activedescendant. The arrows choose, Enter and Tab take what was chosen; with none chosen they do what they always do.
 * Such a place is of roles, "roles.*", of the top, "", or of any key that is a map itself.
 */
const text = document.querySelector("textarea[data-keys]");
const places = JSON.parse(document.getElementById(text.dataset.keys).textContent);
const list = document.getElementById(text.dataset.list);
let chosen = -1, begins = 0;

const linesBefore = () => text.value.slice(0, text.selectionStart).split("\n");
const indentOf = (line) => line.search(/\S|$/);

/* The keys above a line, from the top: ["roles", "head"]; null where none leads there. */
function pathTo(lines, indent) {
  const path = [];
  for (const line of lines.toReversed()) {
    const key = /^\s*([\w-]+):/.exec(line)?.[1];
    if (!key || indentOf(line) >= indent) continue;
    path.unshift(key);
    indent = indentOf(line);
  }
  return indent ? null : path;
}

function fieldsAt(path) {
  return path && (places[path.join(".")] ?? (path.length > 1 ? places[[...path.slice(0, -1), "*"].join(".")] : null));
}

/* Keys beside the one that is typed, which are not offered again. */
function saidBeside(row, indent) {
  const lines = text.value.split("\n"), said = new Set();
  for (const way of [-1, 1])
    for (let at = row + way; at >= 0 && at < lines.length; at += way) {
      if (lines[at].trim() && indentOf(lines[at]) < indent) break;
      if (indentOf(lines[at]) === indent) said.add(lines[at].trim().split(":")[0]);
    }
  return said;
}

function findOffers() {
  const lines = linesBefore(), line = lines.pop(), indent = indentOf(line);
  const [, key, value] = /^\s*(?:([\w-]+):[ ]+)?([\w-]*)$/.exec(line) ?? [];
  const fields = value === undefined ? null : fieldsAt(pathTo(lines, indent));
  if (!fields) return [];
  begins = text.selectionStart - value.length;
  if (key) return (fields.find((field) => field.key === key)?.words ?? []).filter(fits(value)).map((word) => ({ takes: word, shows: word }));
  const said = saidBeside(lines.length, indent), path = pathTo(lines, indent);
  return fields
    .filter((field) => fits(value)(field.key) && !said.has(field.key))
    .map(({ key, hint, words }) => ({ takes: key + goesOn([...path, key], hint, indent), shows: key, hint: hint ?? words.join(", ") }));
}

const fits = (begun) => (word) => word.startsWith(begun) && word !== begun;

/* What follows a key: its value in the line, or a line of its own below if it is a map that says more than one thing. */
function goesOn(path, hint, indent) {
  const isMap = [path.join("."), [...path, "*"].join(".")].some((place) => place in places);
  return isMap && !hint ? `:\n${" ".repeat(indent + 2)}` : ": ";
}

function offer(all) {
  const offers = findOffers();
  const typed = text.selectionStart > begins;
  show(text.selectionStart === text.selectionEnd && (typed || all) ? offers : []);
}

function show(offers) {
  chosen = -1;
  text.removeAttribute("aria-activedescendant");
  list.replaceChildren(...offers.map(build));
  list.hidden = !offers.length;
}

function build({ takes, shows, hint }, index) {
  const option = Object.assign(document.createElement("li"), { id: `${list.id}-${index}`, textContent: shows });
  option.setAttribute("role", "option");
  option.setAttribute("aria-selected", "false");
  option.dataset.takes = takes;
  if (hint) option.append(Object.assign(document.createElement("span"), { textContent: hint }));
  return option;
}

function choose(index) {
  const options = list.children;
  options[chosen]?.setAttribute("aria-selected", "false");
  chosen = (index + options.length) % options.length;
  options[chosen].setAttribute("aria-selected", "true");
  options[chosen].scrollIntoView({ block: "nearest" });
  text.setAttribute("aria-activedescendant", options[chosen].id);
}

function take(option) {
  text.setRangeText(option.dataset.takes, begins, text.selectionStart, "end");
  text.focus();
  show([]);
  text.dispatchEvent(new Event("input", { bubbles: true }));
}

const KEYS = {
  ArrowDown: () => choose(chosen + 1),
  ArrowUp: () => choose(chosen < 0 ? -1 : chosen - 1),
  Enter: () => take(list.children[chosen]),
  Tab: () => take(list.children[chosen]),
  Escape: () => show([]),
};
text.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.code === "Space") offer(true);
  else if (list.hidden || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  else if ((event.key === "Enter" || event.key === "Tab") && chosen < 0) return show([]);
  else KEYS[event.key]();
  event.preventDefault();
});
text.addEventListener("input", () => offer(false));
text.addEventListener("blur", () => setTimeout(() => document.activeElement !== text && show([])));
list.addEventListener("pointerdown", (event) => event.preventDefault()); // the text keeps the focus
list.addEventListener("click", ({ target }) => take(target.closest("[role=option]")));
