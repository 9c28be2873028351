/* #open[data-ready="address"]: the notebook answers there, so go. It takes this page's place: Back leads to where one came
 * from, not into it again. A page that comes back from the browser's memory stays, and offers its link.
 * #open[data-waits]: its person pressed Start before notebooks could start here; so it is pressed when they can.
 * In forms of sizes, typing another amount chooses "Other".
 */
let gone = false, waits = false;

function go() {
  const open = document.getElementById("open");
  const couldNot = waits;
  waits = "waits" in (open?.dataset ?? {});
  if (couldNot && !waits) document.getElementById("start")?.requestSubmit();
  const address = open?.dataset.ready;
  if (!address || gone || document.hidden) return;
  gone = true;
  location.replace(address);
}

go();
document.body.addEventListener("htmx:afterSettle", go);
document.addEventListener("visibilitychange", go);
window.addEventListener("pageshow", ({ persisted }) => (gone = gone || persisted));

document.addEventListener("input", ({ target }) => {
  if (target.name === "gpu_text") target.closest("fieldset").querySelector('[value="other"]').checked = true;
});
