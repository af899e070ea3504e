// What the pages share: small helpers, unpacking, and the list of cases. Each page's own script
// follows in the same scope.

if (typeof DecompressionStream === "undefined") {
  throw new Error("this browser is too old (it needs DecompressionStream, of 2023 or newer). "
    + "The same numbers are in the Parquet files.");
}

const $ = (id) => document.getElementById(id);
const NONE = "—";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c !== null).map((c) => (c instanceof Node ? c : String(c))));
  return made;
}

// a long name may break between its words
const breakable = (name) => element("span", {}, ...name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[_-])/)
  .flatMap((part, k) => (k ? [element("wbr"), part] : [part])));
const row = (...cells) => element("tr", {}, ...cells);
const cell = (text, kind = "") => element("td", { class: kind }, text);
const head = (text, kind = "") => element("th", { scope: "col", class: kind }, text);
const side = (text, kind = "") => element("th", { scope: "row", class: kind }, text);

function number(value, most = 3) {
  if (value === null || value === undefined) return NONE;
  // four significant digits are stored: no more decimals than that
  const digits = Math.min(most, Math.max(0, 3 - Math.floor(Math.log10(Math.max(1, Math.abs(value))))));
  const text = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4)
    ? value.toExponential(1) : value.toFixed(digits);
  return text.replace("-", "−");
}
const percent = (share, digits = 0) => (share === null ? NONE : `${(100 * share).toFixed(digits)} %`);
const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function options(select, entries) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
}

function show() {
  $("main").hidden = false;
  $("loading").hidden = true;
}

function ready() {
  document.documentElement.dataset.ready = "yes";
}

// A table whose headings sort it. Arrow keys go from row to row; a row that is reached or clicked is
// opened. One row, the current one, takes part in the order of tabs.
//
// A column has a key, a title, value(index) to sort by, and may have text(index), left, down (largest
// first at the first click) and kind (a class). The first column names the row.
function makeList(table, { columns, sort, label, tie, open, previous, next }) {
  let by = sort;
  let down = false;
  let drawn = [];
  let current = null;

  const compare = (a, b) => {
    const column = columns.find((c) => c.key === by);
    const [x, y] = [column.value(a), column.value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (down ? -order : order) || tie(a, b);
  };
  const kindOf = (column) => [column.kind, column.left ? "left" : ""].filter(Boolean).join(" ");

  function draw(indices) {
    drawn = indices.sort(compare);
    const focused = document.activeElement?.dataset?.sort;
    table.tHead.replaceChildren(row(...columns.map((c) => {
      const active = c.key === by;
      return element("th", {
        scope: "col", class: kindOf(c), "aria-sort": active ? (down ? "descending" : "ascending") : "none",
      }, element("button", { type: "button", "data-sort": c.key, onclick: () => sortBy(c) },
        c.title + (active ? (down ? " ▼" : " ▲") : "")));
    })));
    if (focused) table.querySelector(`[data-sort=${focused}]`)?.focus();
    table.tBodies[0].replaceChildren(...drawn.map((i) => element("tr",
      { "data-index": i, onclick: () => choose(i, true) },
      ...columns.map((c, k) => {
        const text = (c.text ?? c.value)(i);
        if (k) return cell(text, kindOf(c));
        return element("th", { scope: "row" }, element("button", { type: "button", tabindex: "-1", "aria-label": label(text) }, text));
      }))));
    mark();
    return drawn;
  }

  function sortBy(column) {
    if (by === column.key) down = !down;
    else [by, down] = [column.key, Boolean(column.down)];
    draw(drawn);
  }

  function mark() {
    let line = null;
    for (const other of table.tBodies[0].rows) {
      const here = Number(other.dataset.index) === current;
      other.setAttribute("aria-current", String(here));
      other.querySelector("button").tabIndex = here ? 0 : -1;
      if (here) line = other;
    }
    if (!line && drawn.length) table.tBodies[0].rows[0].querySelector("button").tabIndex = 0;
    const place = drawn.indexOf(current);
    previous.disabled = place <= 0;
    next.disabled = place < 0 ? !drawn.length : place >= drawn.length - 1;
    return line;
  }

  function reveal(line) {
    const box = line.closest(".scroll");
    const top = table.tHead.offsetHeight;
    if (line.offsetTop - top < box.scrollTop) box.scrollTop = line.offsetTop - top;
    else if (line.offsetTop + line.offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = line.offsetTop + line.offsetHeight - box.clientHeight;
    }
  }

  function choose(index, focus = false) {
    current = index;
    const line = mark();
    if (line) reveal(line);
    if (line && focus) line.querySelector("button").focus({ preventScroll: true });
    open(index);
  }

  function step(to) {
    const place = drawn.indexOf(current);
    const target = place < 0 ? 0 : Math.max(0, Math.min(drawn.length - 1, place + to));
    if (drawn.length) choose(drawn[target]);
  }

  table.tBodies[0].addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    const from = event.target.closest("tr");
    if (!(event.key in moves) || !from) return;
    event.preventDefault();
    const target = from.rowIndex - 1 + moves[event.key];
    choose(drawn[Math.max(0, Math.min(drawn.length - 1, target))], true);
  });
  previous.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));

  return { draw, choose, forget: () => { current = null; }, get shown() { return drawn; } };
}
