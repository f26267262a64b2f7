"use strict";
(() => {
  const table = document.getElementById("class");
  const everyone = table.tBodies[1];
  const rows = Array.from(everyone.rows);
  const filtered = table.querySelectorAll("tr[data-find]");
  const search = document.getElementById("search");
  const menus = ["problem", "mistake", "mark"].map((id) => document.getElementById(id));
  const shown = document.getElementById("shown");
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const has = (row, menu) => !menu.value || row.dataset[menu.id].split(" ").includes(menu.value);

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of filtered) {
      row.hidden = !words.every((word) => row.dataset.find.includes(word))
        || !menus.every((menu) => has(row, menu));
    }
    shown.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} shown`;
  }

  function clear() {
    for (const field of [search, ...menus]) field.value = "";
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
    everyone.append(...rows);
  }

  for (const head of table.tHead.rows[0].cells) {
    head.querySelector("button").addEventListener("click", () => sort(head));
  }
  search.addEventListener("input", filter);
  for (const menu of menus) menu.addEventListener("change", filter);
  document.getElementById("clear").addEventListener("click", () => {
    clear();
    filter();
  });
  for (const button of document.querySelectorAll("button[data-menu]")) {
    button.addEventListener("click", () => {
      clear();
      document.getElementById(button.dataset.menu).value = button.dataset.choice;
      filter();
      document.getElementById("filters").scrollIntoView();
    });
  }
  document.getElementById("filters").hidden = false;
  filter();
})();
