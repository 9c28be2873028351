/* <time datetime data-ago> says "3 minutes ago", <time datetime data-ticks> counts up ("0:41"). In the page's language. */
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto", style: "short" });
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];
const SKEW_S = 5;

function words(seconds) {
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

function clock(seconds) {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return h ? `${h}:${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}` : `${m}:${String(s).padStart(2, "0")}`;
}

function tell() {
  for (const time of document.querySelectorAll("time[data-ago], time[data-ticks]")) {
    const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
    const text = "ticks" in time.dataset ? clock(Math.max(0, -seconds)) : words(seconds > 0 && seconds < SKEW_S ? 0 : seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

tell();
setInterval(tell, 1000);
document.body.addEventListener("htmx:afterSwap", tell);
