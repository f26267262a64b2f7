"""The script of the class page: sorts and filters the table, no more."""

SCRIPT = """
"use strict";
(() => {
  const table = document.getElementById("class");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const search = document.getElementById("search");
  const problem = document.getElementById("problem");
  const mistake = document.getElementById("mistake");
  const mark = document.getElementById("mark");
  const shown = document.getElementById("shown");
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const has = (row, list, wanted) => wanted === "" || row.dataset[list].split(" ").includes(wanted);

  function filter() {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = words.every((word) => row.dataset.find.includes(word))
        && has(row, "wrong", problem.value)
        && has(row, "mistakes", mistake.value)
        && has(row, "marks", mark.value);
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  function value(row, column) {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.dataset.text;
  }

  function sort(head) {
    const column = head.cellIndex;
    const first = "descending" in head.dataset ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = head.getAttribute("aria-sort") === first ? other : first;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const compare = (a, b) => (typeof a === "number" ? a - b : order.compare(a, b));
    rows.sort((a, b) => sign * compare(value(a, column), value(b, column)));
    body.append(...rows);
  }

  for (const head of table.tHead.rows[0].cells) {
    head.querySelector("button").addEventListener("click", () => sort(head));
  }
  search.addEventListener("input", filter);
  for (const menu of [problem, mistake, mark]) menu.addEventListener("change", filter);
  document.getElementById("clear").addEventListener("click", () => {
    search.value = problem.value = mistake.value = mark.value = "";
    filter();
  });
  for (const button of document.querySelectorAll("button[data-menu]")) {
    button.addEventListener("click", () => {
      search.value = problem.value = mistake.value = mark.value = "";
      document.getElementById(button.dataset.menu).value = button.dataset.choice;
      filter();
      document.getElementById("students").scrollIntoView();
    });
  }
  document.getElementById("filters").hidden = false;
  filter();
})();
"""
