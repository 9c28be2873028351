/* <form data-sync="url">: keeps the job's form and its YAML in step. After a pause the file and the fields that were touched
 * are posted; the answer brings both panes to what they say together, marks each field and line that is wrong, and says
 * what would become of the job. Of one that would wait it is asked once more, after a longer pause, when it would start and
 * what would help. Only text is written. A submit carries what was touched too, so nothing typed last is lost.
 */
import { chooseOther, fill, isChanged } from "./job-fields.js";

const PAUSE_MS = 300, AHEAD_MS = 700;
const form = document.getElementById("job-form");
const part = (name) => form.querySelector(`[data-${name}]`);
const { yaml, upload, gpu_text: typed } = form.elements;
const touched = new Set();
let pause = 0, asked = null;

async function sync({ anew = false, ahead = false } = {}) {
  clearTimeout(pause);
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  if (!ahead) part("preview").dataset.tone = "busy";
  const body = new FormData(form);
  body.delete("upload");
  body.set("code_chosen", upload.files.length ? "1" : "");
  if (ahead) body.set("ahead", "1");
  if (anew) {
    body.set("yaml", "");
    body.set("touched", Object.keys(Object.fromEntries(body)).join(","));
  }
  const headers = { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value };
  try {
    const answer = await fetch(form.dataset.sync, { method: "POST", body, headers, signal });
    if (!answer.ok) return unreachable();
    const told = await answer.json();
    if (signal.aborted) return;
    show(told);
    if (told.preview.later) pause = setTimeout(() => sync({ ahead: true }), AHEAD_MS);
  } catch (error) {
    if (error.name !== "AbortError") unreachable();
  }
}

function show(answer) {
  part("stuck").hidden = !answer.stuck;
  if (answer.yaml !== null) {
    touched.clear();
    if (yaml.value !== answer.yaml) write(answer.yaml);
    for (const [name, value] of Object.entries(answer.values)) fill(name, value);
  }
  for (const place of form.querySelectorAll("[data-error]")) mark(place, answer.errors[place.dataset.error] ?? "");
  part("lines").replaceChildren(...answer.lines.map(line));
  for (const control of form.querySelectorAll("[data-empty]"))
    control.placeholder = answer.usual[control.name] ?? control.dataset.empty;
  say(answer.preview);
}

function write(text) {
  const { selectionStart, selectionEnd } = yaml;
  yaml.value = text;
  if (document.activeElement === yaml) yaml.setSelectionRange(selectionStart, selectionEnd);
}

function mark(place, words) {
  place.hidden = !words;
  place.lastElementChild.textContent = words;
  document.getElementById(`job-${place.dataset.error}`)?.setAttribute("aria-invalid", words ? "true" : "false");
}

function line({ line, words }) {
  const item = document.createElement("li");
  if (line) item.append(Object.assign(document.createElement("b"), { textContent: form.dataset.wordsLine.replace("{n}", line) }), " ");
  item.append(words);
  return item;
}

function say({ tone, words, more, fixes }) {
  part("preview").dataset.tone = tone;
  part("preview-words").textContent = words;
  part("preview-more").replaceChildren(...more.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  part("preview-fixes").replaceChildren(...fixes.map(fix));
}

function fix({ field, value, words }) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "btn btn-small", textContent: words });
  button.addEventListener("click", () => {
    fill(field, value);
    touched.add(field);
    sync();
  });
  return button;
}

const unreachable = () => say({ tone: "stale", words: form.dataset.wordsUnreachable, more: [], fixes: [] });

function touch(control) {
  if (control !== yaml && control !== upload) touched.add(control === typed ? "gpu" : control.name);
}

form.addEventListener("input", ({ target }) => {
  touch(target);
  if (target === typed) chooseOther();
  asked?.abort(); // an answer to what was typed before must not write over what is typed now
  clearTimeout(pause);
  pause = setTimeout(() => sync(), PAUSE_MS);
});
form.addEventListener("formdata", ({ formData }) => formData.set("touched", [...touched].join(",")));
part("rebuild").addEventListener("click", () => sync({ anew: true }));
form.addEventListener("submit", () => setTimeout(() => (part("submit").disabled = true)));
window.addEventListener("pageshow", () => (part("submit").disabled = false));
[...form.elements].filter(isChanged).forEach(touch);
sync();
