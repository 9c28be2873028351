/* The slider of the replay. Says its moment while it moves; the form asks for it once it rests. Other ways to a moment
 * (buttons) draw the form anew, data-at tells which, and the slider follows. A pool leaves the moment as it was asked for,
 * data-asked: the slider knows only its grid. Reads: #replay-when, #replay-at, #replay-pool, #replay-shown.
 * Times are told by the clocks of data-zone, as the page tells them.
 */
import { clocksOf } from "./time-zone.js";

const zone = document.getElementById("replay-when")?.dataset.zone;
const offsetOf = clocksOf(zone);
const show = (seconds) => `${new Date(1000 * (seconds + offsetOf(seconds))).toISOString().slice(0, 16).replace("T", " ")} ${zone}`;

document.addEventListener("input", ({ target }) => {
  if (target.id !== "replay-at") return;
  const words = show(Number(target.value));
  document.getElementById("replay-shown").value = words;
  target.setAttribute("aria-valuetext", words);
});

document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
  const slider = document.getElementById("replay-at");
  const shown = document.getElementById("replay-shown");
  if (!slider || detail.requestConfig?.elt?.id === "replay-when") return;
  slider.value = document.getElementById("replay-when").dataset.at;
  slider.setAttribute("aria-valuetext", shown.value);
});

document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.triggeringEvent?.target?.id === "replay-pool") detail.parameters.at = detail.elt.dataset.asked;
});
