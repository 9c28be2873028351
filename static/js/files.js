/* Files: uploads in pieces that go on after a break, by button or drop; one rename and one delete dialog for all rows. */
const API = "/api/v1/files/uploads";
const PAUSES_MS = [500, 1000, 2000, 4000, 8000, 15000];
const box = document.getElementById("files");
const list = document.getElementById("sending");
const words = document.getElementById("sending-says")?.dataset;
const waiting = [];
let busy = false;

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens][data-name]");
  if (!opener) return;
  const dialog = document.getElementById(opener.dataset.opens);
  for (const field of dialog.querySelectorAll("[data-exact]")) field.value = opener.dataset.name;
  for (const place of dialog.querySelectorAll("[data-shown]")) place.textContent = opener.dataset.words;
});

if (box?.dataset.mayWrite === "yes") {
  document.getElementById("files-input").addEventListener("change", ({ target }) => {
    add(target.files);
    target.value = "";
  });
  const listing = document.getElementById("listing");
  const drop = document.getElementById("files-drop");
  const over = (is) => {
    listing.classList.toggle("is-over", is);
    drop.hidden = !is;
  };
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(false);
    add(event.dataTransfer.files);
  });
  window.addEventListener("beforeunload", (event) => busy && event.preventDefault());
}

function add(files) {
  for (const file of files) {
    const row = document.getElementById("sending-row").content.firstElementChild.cloneNode(true);
    row.querySelector(".sending-name").textContent = file.name;
    const task = { file, row, replace: false, stopped: false, id: "" };
    row.addEventListener("click", (event) => act(task, event.target.closest("[data-do]")?.dataset.do));
    list.append(row);
    enqueue(task);
  }
  list.hidden = !list.children.length;
}

function act(task, what) {
  if (what === "stop") {
    task.stopped = true;
    task.abort?.abort();
    if (task.id && !task.done) call("DELETE", `${API}/${task.id}`).catch(() => {});
    forget(task);
    task.row.remove();
    list.hidden = !list.children.length;
  } else if (what) {
    task.replace ||= what === "replace";
    enqueue(task);
  }
}

function enqueue(task) {
  for (const button of task.row.querySelectorAll("[data-do=again], [data-do=replace]")) button.hidden = true;
  task.row.classList.remove("is-wrong");
  say(task, words.waits);
  waiting.push(task);
  if (!busy) work();
}

async function work() {
  busy = true;
  while (waiting.length) {
    const task = waiting.shift();
    if (task.stopped) continue;
    try {
      await send(task);
      finish(task);
    } catch (error) {
      if (!task.stopped) fail(task, error);
    }
  }
  busy = false;
}

/* From the offset that the portal names; a lost connection only means to ask it again. */
async function send(task) {
  let offset = await begin(task);
  let tries = 0;
  while (offset < task.file.size && !task.stopped) {
    const piece = task.file.slice(offset, offset + Number(box.dataset.chunk));
    try {
      const answer = await call("PATCH", `${API}/${task.id}`, piece, { "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" }, task);
      offset = answer.offset;
      tries = 0;
      progress(task, offset);
    } catch (error) {
      if (task.stopped) return;
      if (error.code === "wrong_offset") offset = error.params.offset;
      else if (error.status && error.status < 500 && error.code !== "upload_busy" && error.status !== 429) throw error;
      else {
        say(task, words.lost.replace("{sent}", size(offset)));
        await pause(PAUSES_MS[Math.min(tries++, PAUSES_MS.length - 1)]);
        offset = await again(task, offset);
      }
    }
  }
}

/* One that was begun before, perhaps on a page that is closed since, goes on. */
async function begin(task) {
  const known = task.id || localStorage.getItem(key(task));
  if (known && !task.replace) {
    try {
      const there = await call("GET", `${API}/${known}`);
      if (there.size === task.file.size && !there.done) {
        task.id = known;
        say(task, words.resumed.replace("{sent}", size(there.offset)));
        if (there.offset === there.size) await call("PATCH", `${API}/${known}`, new Blob(), { "Upload-Offset": String(there.offset), "Content-Type": "application/offset+octet-stream" });
        return there.offset;
      }
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  } else if (known) {
    await call("DELETE", `${API}/${known}`).catch(() => {});
  }
  const path = box.dataset.path ? `${box.dataset.path}/${task.file.name}` : task.file.name;
  const about = { place: box.dataset.place, path, size: task.file.size, replace: task.replace };
  const made = await call("POST", API, JSON.stringify(about), { "Content-Type": "application/json" });
  task.id = made.id;
  if (!made.done) localStorage.setItem(key(task), made.id);
  return made.offset;
}

async function again(task, offset) {
  try {
    return (await call("GET", `${API}/${task.id}`)).offset;
  } catch (error) {
    if (error.status === 404) throw error;
    return offset;
  }
}

function finish(task) {
  if (task.stopped) return;
  task.done = true;
  forget(task);
  progress(task, task.file.size);
  say(task, words.done);
  task.row.classList.add("is-done");
  document.body.dispatchEvent(new CustomEvent("files-changed"));
}

function fail(task, error) {
  say(task, error.detail || words.refused);
  task.row.classList.add("is-wrong");
  task.row.querySelector(`[data-do=${error.code === "name_taken" ? "replace" : "again"}]`).hidden = false;
}

function progress(task, sent) {
  task.row.querySelector("progress").value = task.file.size ? (100 * sent) / task.file.size : 100;
  say(task, words.sent.replace("{sent}", size(sent)).replace("{size}", size(task.file.size)));
}

async function call(method, url, body, headers = {}, task = null) {
  const token = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
  const abort = new AbortController();
  if (task) task.abort = abort;
  const response = await fetch(url, { method, body, signal: abort.signal, headers: { ...headers, "X-CSRFToken": token, Accept: "application/json" } });
  const answer = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const first = answer.errors?.[0]?.detail;
  throw Object.assign(new Error(answer.code), { status: response.status, code: answer.code, params: answer.params, detail: first || answer.detail });
}

/* At once when the network says that it is back. */
const pause = (ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      resolve();
    }
    window.addEventListener("online", done);
  });

const key = ({ file }) => `upload ${box.dataset.place} ${box.dataset.path} ${file.name} ${file.size} ${file.lastModified}`;
const forget = (task) => localStorage.removeItem(key(task));
const say = (task, text) => (task.row.querySelector(".sending-words").textContent = text);

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (bytes >= 999.5 && step < units.length - 1) [bytes, step] = [bytes / 1000, step + 1];
  return `${step && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[step]}`;
}
