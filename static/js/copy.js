/* <button data-copy="text">: copies it and shows a tick for two seconds. Also where the clipboard API is closed (plain http). */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  if (!(await copy(button.dataset.copy))) return;
  button.classList.add("is-copied");
  setTimeout(() => button.classList.remove("is-copied"), 2000);
});

async function copy(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      /* not allowed here: fall through to the old way */
    }
  }
  const box = Object.assign(document.createElement("textarea"), { value: text, className: "only-read" });
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  return copied;
}
