/* The keys of <dialog id="shortcuts">: each [data-keys] is bound as it is listed. "g h" is g, then h; "mod k" is Ctrl-K, or ⌘K
 * on a Mac. Single keys are silent in fields, terminals, open dialogs and menus, and where the list's switch is off.
 */
const THEN_MS = 1500, KEPT = "tessera-single-keys", OFF = "off";
const onMac = /Mac|iPhone|iPad/.test(navigator.platform);
const list = document.getElementById("shortcuts");
const keys = new Map([...(list?.querySelectorAll("[data-keys]") ?? [])].map((row) => [row.dataset.keys, row.dataset]));
let first = "", pressedAt = 0;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const mod = onMac ? event.metaKey : event.ctrlKey;
  if (mod ? isTerminal(event.target) || event.shiftKey : event.ctrlKey || event.metaKey || !areOn() || isBusy(event.target)) return;
  const held = !mod && event.timeStamp - pressedAt < THEN_MS ? first : "";
  first = "";
  const bound = keys.get(`${mod ? "mod " : held}${event.key}`) ?? (held && keys.get(event.key));
  if (bound) {
    event.preventDefault();
    act(bound);
  } else if (!mod && [...keys.keys()].some((one) => one.startsWith(`${event.key} `))) {
    first = `${event.key} `;
    pressedAt = event.timeStamp;
  }
});

function act({ goes, presses, does }) {
  if (goes) location.assign(goes);
  else if (presses) document.getElementById(presses)?.click();
  else ACTS[does]();
}

const ACTS = {
  next: () => stepRows(1),
  previous: () => stepRows(-1),
  filter: () => {
    const field = [...document.querySelectorAll("main input[type=search]")].find((one) => one.checkVisibility());
    if (!field) return document.getElementById("find").click();
    field.focus();
    field.select();
  },
};

/* The focus goes to the first link of the row: Enter opens it. */
function stepRows(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a[href]"));
  const at = rows.indexOf(document.activeElement.closest("tr"));
  const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
  row?.querySelector("a[href]").focus({ focusVisible: true });
}

const isTerminal = (target) => target.closest(".xterm") !== null;
const isBusy = (target) =>
  isTerminal(target) ||
  target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null ||
  document.querySelector("dialog[open], [popover]:popover-open") !== null;

/* ---- the switch, of this browser ---- */

function areOn() {
  try {
    return localStorage.getItem(KEPT) !== OFF;
  } catch {
    return true; // a browser that keeps nothing
  }
}

const box = list?.querySelector("#single-keys");
if (box) {
  box.checked = areOn();
  box.addEventListener("change", () => localStorage.setItem(KEPT, box.checked ? "on" : OFF));
}
if (onMac) for (const key of document.querySelectorAll("[data-mac]")) key.textContent = key.dataset.mac;
