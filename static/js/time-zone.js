/* The person's time zone: the one chosen in the profile, else the browser's. */
export const timeZone = known(document.documentElement.dataset.zone);

/* A function of seconds since 1970: how far that zone's clocks are ahead of UTC then, in seconds. */
export function clocksOf(zone) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: known(zone), hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" });
  return (seconds) => {
    const whole = Math.floor(seconds);
    const at = Object.fromEntries(parts.formatToParts(new Date(1000 * whole)).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(at.year, at.month - 1, at.day, at.hour, at.minute, at.second) / 1000 - whole;
  };
}

export const offsetOf = clocksOf(timeZone);

/* Browsers differ in the rarer names. */
function known(name) {
  try {
    return name && new Intl.DateTimeFormat("en", { timeZone: name }) ? name : undefined;
  } catch {
    return undefined;
  }
}
