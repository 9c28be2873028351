/* <form data-sync="url">: keeps the job's form and its YAML in step. What was edited last is posted after a pause; the answer
 * fills the other pane, marks each field and line that is wrong, and says whether the job could start. Only text is written.
 */
const PAUSE_MS = 300;
const form = document.getElementById("job-form");
const part = (name) => form.querySelector(`[data-${name}]`);
const { edited, yaml, upload, gpu_text: typed } = form.elements;
let pause = 0, asked = null;

async function sync(anew = false) {
  asked?.abort();
  asked = new AbortController();
  part("preview").dataset.tone = "busy";
  const body = new FormData(form);
  body.delete("upload");
  body.set("code_chosen", upload.files.length ? "1" : "");
  if (anew) body.set("yaml", "");
  const headers = { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value };
  try {
    const answer = await fetch(form.dataset.sync, { method: "POST", body, headers, signal: asked.signal });
    if (answer.ok) show(await answer.json(), anew);
    else unreachable();
  } catch (error) {
    if (error.name !== "AbortError") unreachable();
  }
}

function show(answer, anew) {
  if (typeof answer.yaml === "string" && (anew || document.activeElement !== yaml)) yaml.value = answer.yaml;
  if (answer.values) for (const [name, value] of Object.entries(answer.values)) fill(name, value);
  part("stuck").hidden = answer.yaml !== null && answer.values !== null;
  for (const place of form.querySelectorAll("[data-error]")) mark(place, answer.errors[place.dataset.error] ?? "");
  part("lines").replaceChildren(...answer.lines.map(line));
  for (const control of form.querySelectorAll("[data-empty]")) control.placeholder = answer.usual[control.name] ?? control.dataset.empty;
  say(answer.preview);
}

function fill(name, value) {
  if (name === "gpu") return choose(value);
  const control = form.elements[name];
  if (control.type === "checkbox") control.checked = value !== "";
  else if (control.localName === "select" && ![...control.options].some((option) => option.value === value))
    control.add(new Option(value, value, false, true));
  else control.value = value;
}

function choose(value) {
  const offered = [...form.elements.gpu].find((radio) => radio.value === value && value !== "other");
  if (!offered) typed.value = value;
  (offered ?? [...form.elements.gpu].at(-1)).checked = true;
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
    edited.value = "form";
    sync();
  });
  return button;
}

const unreachable = () => say({ tone: "stale", words: form.dataset.wordsUnreachable, more: [], fixes: [] });

form.addEventListener("input", ({ target }) => {
  edited.value = target === yaml ? "yaml" : "form";
  asked?.abort(); // its answer would overwrite what is being typed
  if (target === typed) [...form.elements.gpu].at(-1).checked = true;
  clearTimeout(pause);
  pause = setTimeout(sync, PAUSE_MS);
});
part("rebuild").addEventListener("click", () => {
  edited.value = "form";
  sync(true);
});
form.addEventListener("submit", () => setTimeout(() => (part("submit").disabled = true)));
window.addEventListener("pageshow", () => (part("submit").disabled = false));
sync();
