/* Toasts in #notes: they come with a page, with an htmx answer, or by HX-Trigger {"note": "text"}; faults stay until closed. */
const STAY_MS = 7000;
const notes = document.getElementById("notes");

document.addEventListener("click", (event) => event.target.closest("[data-note-close]")?.closest("[data-note]").remove());
document.body.addEventListener("note", ({ detail }) => add(typeof detail === "string" ? detail : detail.value));
document.body.addEventListener("htmx:sendError", () => add(notes.dataset.wordsUnreachable));
document.body.addEventListener("htmx:timeout", () => add(notes.dataset.wordsUnreachable));

function add(text) {
  if ([...notes.querySelectorAll("[data-note-text]")].some((shown) => shown.textContent === text)) return;
  const note = document.getElementById("note-template").content.cloneNode(true);
  note.querySelector("[data-note-text]").textContent = text;
  notes.append(note);
}

/* A platform that is away says so to each part of a page that asks. */
function leaveLater() {
  const shown = new Set();
  for (const note of notes.querySelectorAll("[data-note]")) {
    const text = note.querySelector("[data-note-text]").textContent;
    if (shown.has(text)) note.remove();
    shown.add(text);
  }
  for (const note of notes.querySelectorAll("[data-note]:not([data-leaves]):not(.note-fault):not(.note-error)")) {
    note.dataset.leaves = "";
    setTimeout(() => note.remove(), STAY_MS);
  }
}

new MutationObserver(leaveLater).observe(notes, { childList: true });
leaveLater();
