/* <button data-opens="id"> opens the <dialog id>; data-closes or a click beside it closes. Morphs leave open things open. */
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens)?.showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog")?.close();
  if (event.target instanceof HTMLDialogElement && isBeside(event.target, event)) event.target.close();
});

/* An address ends with a dialog's id where it leads to a question: /j/job-412/#stop-job-412. */
function openNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (!(named instanceof HTMLDialogElement) || named.open) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  named.showModal();
}

window.addEventListener("hashchange", openNamed);
openNamed();

function isBeside(dialog, { clientX, clientY, detail }) {
  const box = dialog.getBoundingClientRect();
  return detail > 0 && (clientX < box.left || clientX > box.right || clientY < box.top || clientY > box.bottom);
}

/* A refetch must not shut what the reader opened, nor empty what filled itself: a log, or what was asked for later. */
window.addEventListener("DOMContentLoaded", () => {
  const callbacks = window.Idiomorph?.defaults.callbacks;
  if (!callbacks) return;
  callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.matches("dialog, details"));
  callbacks.beforeNodeMorphed = (old, fresh) => !old.dataset?.keep || old.dataset.keep !== fresh.dataset?.keep;
});
