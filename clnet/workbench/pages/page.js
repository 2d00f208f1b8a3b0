// The page is whole without this: it adds the choice of colours, boxes that filter rows, sorting by a button in each head, and a word where a table is wider than its box.
const KEPT = "clnet-colours";
const UNITS = { "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, kB: 1e3, MB: 1e6, GB: 1e9 };
const VALUE = /([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s?(µs|ms|min|[KMG]iB|[kMG]B|[sh])?(?![\w.])/g;
function kept(value) {  // where a browser keeps nothing for files, the choice holds for the page
  try { if (value === undefined) return localStorage.getItem(KEPT) ?? ""; localStorage.setItem(KEPT, value); } catch { /* private */ }
  return value ?? "";
}
function paint(theme) { if (["light", "dark"].includes(theme)) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme; }
paint(kept());

function choice(box) {
  const select = box.querySelector("select");
  box.hidden = false;
  select.value = document.documentElement.dataset.theme ?? "";
  select.addEventListener("change", () => { kept(select.value); paint(select.value); });
}
function detail(row) { return row.nextElementSibling?.classList.contains("more") ? row.nextElementSibling : null; }
function searching(box) {
  const [text, open] = [box.querySelector("[type=search]"), box.querySelector("[type=checkbox]")];
  const act = () => filter(box.parentElement, text.value.trim().toLowerCase(), open?.checked, box.querySelector("[role=status]"));
  box.hidden = false;
  text.addEventListener("input", act);
  open?.addEventListener("change", act);
}
function filter(part, wanted, open, said) {
  let [all, left] = [0, 0];
  for (const body of part.querySelectorAll("tbody")) {
    let shown = 0;
    for (const row of body.querySelectorAll("tr.row")) {
      const more = detail(row);
      const found = (row.textContent + (more?.textContent ?? "")).toLowerCase().includes(wanted);
      row.hidden = !found || (open && !row.querySelector(".mark.no, .mark.partial"));
      if (more) more.hidden = row.hidden;
      all += 1;
      shown += !row.hidden;
    }
    left += shown;
    for (const row of body.querySelectorAll("tr.gone")) { row.hidden = open || !row.textContent.toLowerCase().includes(wanted); shown += !row.hidden; }
    body.hidden = shown === 0;
  }
  said.textContent = wanted || open ? `${left} of ${all} rows` : "";
  measure();
}
function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => order(table, head, column));
  });
}
// A number with its unit, the parts of "2 min 5 s" together; null for other text.
function amount(text) {
  const parts = [...text.matchAll(VALUE)];
  if (!parts.length || text.replace(VALUE, "").replace(/[\s%×()]/g, "")) return null;
  return parts.reduce((sum, [, digits, unit]) => sum + parseFloat(digits.replace(/,/g, "")) * (UNITS[unit] ?? 1), 0);
}
function order(table, head, column) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const said = (row) => row.cells[column].textContent.trim();
  const texts = [...table.querySelectorAll("tr.row")].map(said).filter(Boolean);
  const number = texts.filter((text) => amount(text) !== null).length > texts.length / 2;
  const value = (row) => number ? amount(said(row)) : said(row).toLowerCase() || null;
  for (const body of table.tBodies) {
    const rows = [...body.querySelectorAll("tr.row")].map((row) => [value(row), row, detail(row)]);
    const end = body.querySelector("tr.gone");
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (a === b ? 0 : a > b ? 1 : -1) * (down ? -1 : 1));
    for (const [, row, more] of rows) { body.insertBefore(row, end); if (more) body.insertBefore(more, end); }
  }
}
function measure() {
  for (const box of document.querySelectorAll(".wide")) {
    box.classList.remove("fits", "over");
    const inner = box.querySelector(".scroll");
    const over = inner.scrollWidth > inner.clientWidth + 1;
    box.classList.add(over ? "over" : "fits");
    inner.tabIndex = over ? 0 : -1;  // by keys one comes to what scrolls
  }
}
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".controls").forEach(choice);
  document.querySelectorAll(".search").forEach(searching);
  document.querySelectorAll("table").forEach(sortable);
  addEventListener("resize", measure);
  measure();
});
