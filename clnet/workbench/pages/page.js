// The page is whole without this: it adds a box that filters rows, sorting by a click on a head, and a word where a table is wider than its box.
for (const search of document.querySelectorAll(".search")) {
  search.hidden = false;
  search.querySelector("input").addEventListener("input", (event) => filter(search.parentElement, event.target.value.trim().toLowerCase()));
}
function filter(part, wanted) {
  for (const body of part.querySelectorAll("tbody")) {
    let shown = 0;
    for (const row of body.querySelectorAll("tr.row")) {
      const more = row.nextElementSibling?.classList.contains("more") ? row.nextElementSibling : null;
      row.hidden = !(row.textContent + (more?.textContent ?? "")).toLowerCase().includes(wanted);
      if (more) more.hidden = row.hidden;
      shown += !row.hidden;
    }
    for (const row of body.querySelectorAll("tr.gone")) { row.hidden = !row.textContent.toLowerCase().includes(wanted); shown += !row.hidden; }
    body.hidden = shown === 0;
  }
}
for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.classList.add("sorts");
    head.tabIndex = 0;
    const sort = () => order(table, head, column);
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}
function order(table, head, column) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const number = head.classList.contains("number");
  const value = (row) => { const text = row.cells[column].textContent.trim(); return number ? parseFloat(text.replace(/,/g, "")) : text.toLowerCase(); };
  for (const body of table.tBodies) {
    const rows = [...body.querySelectorAll("tr.row")].map((row) => [value(row), row, row.nextElementSibling?.classList.contains("more") ? row.nextElementSibling : null]);
    const end = body.querySelector("tr.gone");
    rows.sort(([a], [b]) => (a === b ? 0 : a > b || a !== a ? 1 : -1) * (down ? -1 : 1));
    for (const [, row, more] of rows) { body.insertBefore(row, end); if (more) body.insertBefore(more, end); }
  }
}
function measure() {
  for (const box of document.querySelectorAll(".wide")) {
    box.classList.remove("fits", "over");
    const inner = box.querySelector(".scroll");
    box.classList.add(inner.scrollWidth > inner.clientWidth + 1 ? "over" : "fits");
  }
}
addEventListener("resize", measure);
measure();
