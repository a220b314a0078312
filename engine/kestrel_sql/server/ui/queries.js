// The persistent queries, one line each; a chosen one shows its statement, its error and its plan below.
import { exact } from "./cells.js";
import { $, count, make } from "./dom.js";
import { tables } from "./entities.js";
import { IN, LAG, OUT, rate, sparkline } from "./figures.js";
import { showPlan } from "./plan.js";

// Heading, the value to sort by, what the cell shows besides, and whether that changes with time.
const COLUMNS = [
  { head: "Query", value: (query) => query.id, view: (query) => make("button", { class: "link", type: "button", onclick: () => choose(query.id) }, query.id) },
  { head: "State", value: (query) => query.state, view: (query) => make("span", { class: `state ${query.state}` }, query.state) },
  { head: "In/s", value: (query) => rate(query.id, IN) },
  { head: "Rows in", value: (query) => query.rows_in },
  { head: "Rows out", value: (query) => query.rows_out, curve: (query) => sparkline(query.id, OUT, "rows out") },
  { head: "Lag", value: (query) => query.lag, curve: (query) => sparkline(query.id, LAG, "lag") },
  { head: "Bad", value: (query) => query.bad_records },
  { head: "Late", value: (query) => query.late_records },
  { head: "Statement", value: (query) => query.error || query.statement, view: (query) => query.error ? make("span", { class: "bad" }, query.error) : brief(query.statement), kind: "one-line" },
];

// The statement as one line, without its WITH clause, in which ksqlDB's form has the topic of every sink.
function brief(statement) {
  return statement.replace(/\s+WITH \((?:[^()']|'(?:[^']|'')*')*\)/, "").replace(/\s+/g, " ");
}

let latest = [], chosen = null, sorted = { at: 0, down: false };
const lines = new Map();

export function showQueries(queries) {
  latest = queries;
  if (queries.length === 0) return $("queries").replaceChildren(make("p", { class: "soft" }, "No query runs. CREATE TABLE … AS SELECT … starts one."));
  if (!$("queries").querySelector("table")) $("queries").replaceChildren(frame());
  const body = $("queries").querySelector("tbody");
  for (const [id, line] of lines) if (!queries.some((query) => query.id === id)) forget(id, line);
  for (const query of queries) {
    if (!lines.has(query.id)) lines.set(query.id, { row: make("tr", {}, ...COLUMNS.map((column) => make("td", { "data-head": column.view && column.head !== "State" ? "" : column.head, class: kindOf(column) }))), said: [] });
    update(lines.get(query.id), query);
  }
  const rows = inOrder(queries).flatMap(({ id }) => [lines.get(id).row, lines.get(id).detail]).filter(Boolean);
  if (rows.length !== body.rows.length || rows.some((row, at) => row !== body.rows[at])) body.replaceChildren(...rows);
}

const kindOf = (column) => column.kind ?? (column.view ? null : "number");

function forget(id, line) {
  line.row.remove();
  line.detail?.remove();
  lines.delete(id);
  if (chosen === id) chosen = null;
}

function frame() {
  const heads = COLUMNS.map((column, at) => make("th", { scope: "col", class: column.view ? null : "number" },
    make("button", { class: "head", type: "button", onclick: () => sort(at) }, column.head)));
  return make("div", { class: "scroll" }, make("table", { class: "cards" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody")));
}

function sort(at) {
  sorted = { at, down: sorted.at === at ? !sorted.down : at > 1 };
  $("queries").querySelectorAll("th").forEach((head, index) => {
    if (index === at) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  showQueries(latest);
}

function inOrder(queries) {
  const value = COLUMNS[sorted.at].value;
  const rising = (one, other) => value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0;
  return [...queries].sort((one, other) => sorted.down ? rising(other, one) : rising(one, other));
}

// A cell is drawn anew only when it changes, so that nobody who uses the keyboard loses the focus.
function update(line, query) {
  COLUMNS.forEach(({ value, view, curve }, at) => {
    const now = value(query), cell = line.row.cells[at];
    if (line.said[at] === now && !curve) return;
    line.said[at] = now;
    cell.replaceChildren(...[curve?.(query), view ? view(query) : count(now)].filter((each) => each != null));
  });
  line.row.lastElementChild.title = query.error || query.statement;
  line.row.querySelector("button").setAttribute("aria-expanded", String(chosen === query.id));
  line.row.classList.toggle("chosen", chosen === query.id);
}

export async function choose(id, open = false) {
  const before = chosen;
  if (before !== null) {
    lines.get(before)?.detail?.remove();
    if (lines.has(before)) lines.get(before).detail = null;
    chosen = null;
  }
  const query = latest.find((each) => each.id === id), line = lines.get(id);
  if (query && line && (before !== id || open)) {
    chosen = id;
    const graph = make("div", { id: "graph", tabindex: "0", role: "region", "aria-label": `Plan of ${id}` });
    const step = make("p", { id: "step", class: "soft" }, "A step shows its schema when it is chosen.");
    const errors = make("div"), offsets = make("div");
    const view = make("td", { colspan: COLUMNS.length, "data-head": "" }, query.error ? make("p", { class: "bad" }, query.error) : null, errors,
      query.line ? make("p", { class: "soft" }, `Line ${query.line} of the text that was sent:`) : null, numbered(query.statement), graph, step, offsets);
    line.detail = make("tr", { class: "detail" }, view);
    line.row.after(line.detail);
    await Promise.all([plan(id, graph, step), explain(id, errors, offsets)]);
    line.row.scrollIntoView({ block: "start" });
  }
  showQueries(latest);
}

// The statement with the numbers of its lines, which errors name.
function numbered(statement) {
  return make("pre", { class: "numbered" }, ...statement.split("\n").map((line) => make("span", {}, line)));
}

async function plan(id, graph, step) {
  const answer = await fetch(`/ui/plan/${encodeURIComponent(id)}`);
  if (answer.ok && graph.isConnected) showPlan(graph, await answer.json(), (text) => { step.textContent = text; });
}

async function explain(id, errors, offsets) {
  const answer = await fetch("/ksql", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ksql: `EXPLAIN ${id};` }) });
  const description = answer.ok ? exact(await answer.text())[0]?.queryDescription : null;
  if (!description) return;
  errors.replaceChildren(...tables({ queryErrors: description.queryErrors ?? [] }, id));
  offsets.replaceChildren(...tables({ offsets: description.tasksMetadata ?? [] }, id));
}
