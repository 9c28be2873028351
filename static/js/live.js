/* The page's one websocket. A doorbell, never data: {"touched": ["job-412"]} becomes the event "touched:job-412" on <body>,
 * which htmx elements wait for; {"log": …} becomes "live:log", {"samples": …} "live:samples". After a gap "live:refresh" makes everything visible look again.
 * "live:away", of an answer or a heartbeat, says that the platform itself sees nothing new.
 * Others send by document.body.dispatchEvent(new CustomEvent("live:send", {detail: {…}})) and start again at "live:open".
 * Reads: <body data-live="/live">; the badge #live with data-words-*; [data-active="true"] for what still changes.
 */
const SIGNED_OUT = 4401, MEMBERSHIPS_CHANGED = 4403;
const QUIET_MS = 30_000, DEAD_MS = 45_000, ASK_MS = 20_000, POLL_MS = 10_000, LONGEST_MS = 30_000;
const body = document.body;
let socket = null, tries = 0, heard = Date.now(), polled = Date.now(), missed = false, ended = false;
let away = 0; // since when the platform itself sees nothing new: what is shown is as of then

const say = (name, detail) => body.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
const isOpen = () => socket?.readyState === WebSocket.OPEN;

function connect() {
  socket = new WebSocket(location.origin.replace(/^http/, "ws") + body.dataset.live);
  socket.onopen = () => {
    say("live:open"); // a log's first line before the page's second look
    if (tries > 0 || hasActive()) refresh();
    tries = 0;
    heard = Date.now();
  };
  socket.onmessage = (message) => hear(JSON.parse(message.data));
  socket.onclose = ({ code }) => {
    ended = code === SIGNED_OUT;
    const longest = Math.min(LONGEST_MS, 500 * 2 ** tries++);
    if (!ended) setTimeout(connect, code === MEMBERSHIPS_CHANGED ? 0 : Math.random() * longest);
    show();
  };
}

function hear(message) {
  const gap = Date.now() - heard;
  heard = Date.now();
  if (gap > QUIET_MS) refresh();
  if (message.now) see(message.away);
  if (message.log) say("live:log", message);
  if (message.samples) say("live:samples", message.samples);
  if (message.samples_missed) say("live:samples-missed");
  if (message.touched && document.hidden) missed = true;
  else for (const id of message.touched ?? []) say(`touched:${id}`);
  show();
}

function see(awaySeconds) {
  if (awaySeconds) away ||= Date.now() - 1000 * awaySeconds;
  else if (away) {
    away = 0;
    refresh();
  }
}

function refresh() {
  if (document.hidden) missed = true;
  else say("live:refresh");
}

function tick() {
  const quiet = Date.now() - heard;
  if (isOpen() && quiet > DEAD_MS) socket.close();
  else if (isOpen() && quiet > ASK_MS) socket.send('{"ping": 1}');
  if (!isOpen() && !ended && Date.now() - polled > POLL_MS && hasActive()) {
    polled = Date.now();
    if (quiet > POLL_MS) refresh();
  }
  show();
}

const hasActive = () => document.querySelector('[data-active="true"]') !== null;

function show() {
  const badge = document.getElementById("live");
  if (!badge) return;
  const seconds = Math.round((Date.now() - (away || heard)) / 1000);
  const polling = !isOpen() && !ended && tries > 2 && hasActive();
  const state = ended ? "ended" : away ? "away" : polling ? "polling" : !isOpen() ? (tries ? "offline" : "waiting") : seconds > 30 ? "delayed" : "live";
  const words = (badge.getAttribute(`data-words-${state}`) ?? "").replace("{s}", seconds);
  badge.dataset.state = state;
  if (badge.textContent !== words) badge.textContent = words;
}

if (body.dataset.live) {
  body.addEventListener("live:send", ({ detail }) => isOpen() && socket.send(JSON.stringify(detail)));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !missed) return;
    missed = false;
    refresh();
  });
  body.addEventListener("live:away", () => see(1));
  body.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && see(0));
  setInterval(tick, 1000);
  addEventListener("DOMContentLoaded", connect); // what is told before htmx and the other scripts listen is lost
}
