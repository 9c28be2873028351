/* "touched:queue" and "touched:cluster" ring for everybody's work. For what only wants to be roughly true, "calm:queue" and
 * "calm:cluster" ring at once, then at most every two seconds, and always once more after the last of a burst.
 */
const GAP_MS = 2000;

for (const kind of ["queue", "cluster"]) {
  let rang = -GAP_MS, later = 0;
  const ring = () => {
    rang = performance.now();
    later = 0;
    document.body.dispatchEvent(new CustomEvent(`calm:${kind}`, { bubbles: true }));
  };
  document.body.addEventListener(`touched:${kind}`, () => {
    later ||= setTimeout(ring, Math.max(0, rang + GAP_MS - performance.now()));
  });
}
