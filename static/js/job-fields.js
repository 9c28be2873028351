/* The controls of the job form: put a value into one, and tell which were changed. */
const form = document.getElementById("job-form");
const { gpu_text: typed } = form.elements;
const sizes = () => [...form.elements.gpu];

/* The control that is being typed in is left alone: it is newer than any answer. */
export function fill(name, value) {
  if (name === "gpu") return choose(value);
  const control = form.elements[name];
  if (control === document.activeElement) return;
  if (control.type === "checkbox") control.checked = value !== "";
  else if (control.localName === "select" && ![...control.options].some((option) => option.value === value))
    control.add(new Option(value, value, false, true));
  else control.value = value;
}

function choose(value) {
  if (document.activeElement === typed) return;
  const offered = sizes().find((radio) => radio.value === value && value !== "other");
  if (!offered) typed.value = value;
  (offered ?? sizes().at(-1)).checked = true;
}

/* "Other" is chosen by typing beside it. */
export const chooseOther = () => (sizes().at(-1).checked = true);

/* What was changed before this script was up. */
export function isChanged(control) {
  if (control.type === "radio" || control.type === "checkbox") return control.checked !== control.defaultChecked;
  if (control.localName === "select")
    return control.selectedOptions[0] !== ([...control.options].find((option) => option.defaultSelected) ?? control.options[0]);
  return "defaultValue" in control && control.type !== "hidden" && control.value !== control.defaultValue;
}
