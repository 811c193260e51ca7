"use strict";
/* The page reads without this.  Tables: a click on a head sorts; numbers by data-v, what has none last. */
(() => {
  const key = (row, i) => {
    const cell = row.cells[i];
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? null : text;
  };
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, head, i) => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const body = table.tBodies[0];
    body.append(...[...body.rows].map((row) => [key(row, i), row])
      .sort((a, b) => compare(a[0], b[0], sign)).map((pair) => pair[1]));
  };
  for (const table of document.querySelectorAll("table.sort")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (head.textContent === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head, i));
    });
  }

  for (const box of document.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      const code = box.querySelector("code"), range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy"); /* a file:// page has no other way */
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    box.append(button);
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const d of closed) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of closed) d.open = false; });
})();
