// The grid of quotas: counts and names what was changed, and takes a pasted column or block of a spreadsheet.
const form = document.getElementById("quota-grid");

if (form) {
  const fields = [...form.querySelectorAll("td input.form-control")];
  const bar = form.querySelector("[data-hidden-while-unchanged]");
  const wasOf = (field) => form.elements[`was:${field.name}`].value;

  const tell = () => {
    const changed = fields.filter((field) => field.value.trim() !== wasOf(field));
    for (const field of fields) field.classList.toggle("is-new", changed.includes(field));
    if (!bar) return;
    const words = form.dataset;
    const count = changed.length;
    bar.hidden = count === 0;
    bar.querySelector("[data-change-count]").textContent =
      count === 0 ? words.wordsNone : count === 1 ? words.wordsOne : words.wordsMany.replace("{n}", count);
    bar.querySelector("[data-change-list]").textContent = changed
      .map((field) => `${field.ariaLabel}: ${wasOf(field) || "–"} → ${field.value.trim() || "–"}`)
      .join("; ");
  };

  // In a row the guarantee and the limit of each pool follow each other; the same column of the next row is the next team's.
  const paste = (event) => {
    const text = event.clipboardData.getData("text").replace(/\r/g, "").replace(/\n$/, "");
    if (!/[\n\t]/.test(text)) return;
    event.preventDefault();
    const rows = [...form.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td input.form-control")]);
    const top = rows.findIndex((row) => row.includes(event.target));
    const left = rows[top].indexOf(event.target);
    text.split("\n").forEach((line, down) =>
      line.split("\t").forEach((value, right) => {
        const field = rows[top + down]?.[left + right];
        if (field) field.value = value.trim();
      }),
    );
    tell();
  };

  form.addEventListener("input", tell);
  form.addEventListener("paste", paste);
  // Enter goes to the next team's field; the button saves.
  form.addEventListener("keydown", (event) => {
    const column = event.key === "Enter" && event.target.closest("td");
    if (!column) return;
    event.preventDefault();
    const next = column.parentElement.nextElementSibling?.cells[column.cellIndex]?.querySelector("input.form-control");
    next?.focus();
    next?.select();
  });
  tell();
}
