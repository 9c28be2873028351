/* The slider of the replay. Says its moment while it moves; the form asks for it once it rests. Other ways to a moment
 * (buttons) draw the form anew, data-at tells which, and the slider follows. A pool leaves the moment as it was asked for,
 * data-asked: the slider knows only its grid. Reads: #replay-when, #replay-at, #replay-pool, #replay-shown.
 * #replay-play moves the slider on by a quarter of an hour each time the moment before is drawn, to the end; pressed at the
 * end it begins a day before. Whatever else is pressed there ends it.
 * Times are told by the clocks of data-zone, as the page tells them.
 */
import { clocksOf } from "./time-zone.js";

const FORWARD_S = 900;
const BACK_S = 86_400;
const REST_MS = 700;
let playing = false;
let resting = 0;

const zone = document.getElementById("replay-when")?.dataset.zone;
const offsetOf = clocksOf(zone);
const show = (seconds) => `${new Date(1000 * (seconds + offsetOf(seconds))).toISOString().slice(0, 16).replace("T", " ")} ${zone}`;

function setPlaying(on) {
  playing = on;
  document.getElementById("replay-play")?.setAttribute("aria-pressed", String(on));
}

function moveOn() {
  const slider = document.getElementById("replay-at");
  if (!playing || !slider) return;
  const [at, last] = [Number(slider.value), Number(slider.max)];
  if (at >= last) return setPlaying(false);
  slider.value = String(Math.min(at + FORWARD_S, last));
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  slider.dispatchEvent(new Event("change", { bubbles: true }));
}

document.addEventListener("click", ({ target }) => {
  if (!target.closest("#replay-play")) {
    if (target.closest("#replay-when")) setPlaying(false);
    return;
  }
  setPlaying(!playing);
  const slider = document.getElementById("replay-at");
  if (playing && slider.value === slider.max) slider.value = String(Math.max(Number(slider.max) - BACK_S, Number(slider.min)));
  moveOn();
});

for (const failure of ["htmx:responseError", "htmx:sendError"]) document.body.addEventListener(failure, () => setPlaying(false));

document.addEventListener("input", ({ target, isTrusted }) => {
  if (target.id !== "replay-at") return;
  if (isTrusted) setPlaying(false);
  const words = show(Number(target.value));
  document.getElementById("replay-shown").value = words;
  target.setAttribute("aria-valuetext", words);
});

document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
  const slider = document.getElementById("replay-at");
  const shown = document.getElementById("replay-shown");
  if (!slider) return;
  if (detail.requestConfig?.elt?.id === "replay-when") {
    if (playing && detail.target?.id === "replay") {
      clearTimeout(resting); // it settles once for each part: a second move would come before the first is drawn
      resting = setTimeout(moveOn, REST_MS);
    }
    return;
  }
  slider.value = document.getElementById("replay-when").dataset.at;
  slider.setAttribute("aria-valuetext", shown.value);
});

document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.triggeringEvent?.target?.id === "replay-pool") detail.parameters.at = detail.elt.dataset.asked;
});
