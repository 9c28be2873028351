/* The command palette, <dialog id="palette"> of every page: Ctrl-K and [data-palette] open it. What is typed is asked at
 * data-asks, and the newest answer wins. The field keeps the focus and says the chosen option by aria-activedescendant.
 * An option is a link, or presses the button of the page that data-presses names.
 */
const WAIT_MS = 120, RECENT = 6, KEPT = "tessera-recent";
const dialog = document.getElementById("palette");
if (dialog) {
  const field = dialog.querySelector("input"), answer = dialog.querySelector("#palette-answer");
  const says = dialog.querySelector("#palette-says");
  let options = [], chosen = -1;
  let asking = null, wait = 0, due = false, goes = false; // due: what is shown is not yet for what is typed; goes: Enter came before

  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    dialog.showModal();
    ask();
  };

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    due = true;
    const { signal } = asking, text = field.value.trim();
    try {
      const response = await fetch(`${dialog.dataset.asks}?q=${encodeURIComponent(text)}`, { signal, redirect: "error" });
      if (!response.ok) throw new Error(response.status);
      const found = await response.text();
      if (!signal.aborted) show(found, text);
    } catch {
      if (!signal.aborted) fail();
    }
  }

  function show(found, text) {
    answer.innerHTML = found;
    const list = answer.querySelector("[role=listbox]");
    if (list && !text) list.prepend(...recentGroup());
    options = [...answer.querySelectorAll("[role=option]")];
    options.forEach((option, index) => (option.id = `palette-${index}`));
    field.setAttribute("aria-expanded", String(options.length > 0));
    says.textContent = answer.firstElementChild.dataset.says;
    choose(0);
    due = false;
    if (goes) options[0]?.click();
    goes = false;
  }

  function fail() {
    options = [];
    due = goes = false;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
    answer.replaceChildren(Object.assign(document.createElement("p"), { className: "palette-none", textContent: dialog.dataset.wordsFailed }));
    says.textContent = dialog.dataset.wordsFailed;
  }

  function choose(index) {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = options.length ? (index + options.length) % options.length : -1;
    const option = options[chosen];
    if (!option) return field.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", option.id);
  }

  function go(inNewTab) {
    if (due) {
      clearTimeout(wait);
      goes = true;
      ask();
    } else if (inNewTab && options[chosen]?.href) window.open(options[chosen].href, "_blank", "noopener");
    else options[chosen]?.click();
  }

  const KEYS = {
    ArrowDown: () => choose(chosen + 1),
    ArrowUp: () => choose(chosen - 1),
    Home: () => choose(0),
    End: () => choose(options.length - 1),
    Enter: (event) => go(event.ctrlKey || event.metaKey),
  };
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.shiftKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key](event);
  });
  field.addEventListener("input", () => {
    asking?.abort(); // an answer to what stood there before would be taken for one to what stands there now
    due = true;
    goes = false;
    clearTimeout(wait);
    wait = setTimeout(ask, WAIT_MS);
  });
  answer.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
    dialog.close();
    if (option.dataset.presses) document.getElementById(option.dataset.presses)?.click();
  });
  dialog.addEventListener("close", () => {
    asking?.abort();
    clearTimeout(wait);
  });
  document.addEventListener("click", (event) => event.target.closest("[data-palette]") && open());
  remember();
}

/* ---- recent pages, of this person in this browser ---- */

function* recentGroup() {
  const pages = readRecent().filter((page) => page.href !== location.pathname).slice(0, RECENT);
  if (!pages.length) return;
  const group = document.getElementById("palette-recent").content.firstElementChild.cloneNode(true);
  const line = group.querySelector("a");
  for (const { href, words } of pages) {
    const copy = line.cloneNode(true);
    copy.href = href;
    copy.querySelector("span").textContent = words;
    group.append(copy);
  }
  line.remove();
  yield group;
}

function readRecent() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT));
    return kept.person === dialog.dataset.person ? kept.pages : [];
  } catch {
    return []; // none yet, or a browser that keeps nothing
  }
}

function remember() {
  const words = document.querySelector(".top-words h1")?.textContent.trim();
  if (!words) return;
  const page = { href: location.pathname, words };
  const pages = [page, ...readRecent().filter(({ href }) => href !== page.href)].slice(0, RECENT + 1);
  try {
    localStorage.setItem(KEPT, JSON.stringify({ person: dialog.dataset.person, pages }));
  } catch {
    /* a browser that keeps nothing */
  }
}
