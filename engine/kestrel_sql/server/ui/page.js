// The page: everything is made of DOM nodes and text, never of markup in strings.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const EVERY_MS = 2000, MOST_ROWS = 1000;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const shown = (value) => value === null || value === undefined ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);
const number = (value) => Number(value).toLocaleString("en");

function table(heads, rows, numbers = []) {
  const numeric = (at) => numbers[at] || (rows.length > 0 && rows.every((row) => typeof row[at] === "number"));
  const kind = heads.map((_, at) => numeric(at) ? "number" : null);
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head, at) => make("th", { scope: "col", class: kind[at] }, head)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, at) => cellOf(cell, kind[at])))))));
}

function cellOf(value, kind) {
  if (value instanceof HTMLTableCellElement) return value;
  return make("td", { class: kind }, value instanceof Node ? value : kind === "number" ? number(value) : shown(value));
}

// ---- what the server says of itself, every two seconds ----

let history = {};
let chosen = null, known = { queries: "", sources: "", errors: "" };

async function refresh() {
  try {
    const answer = await fetch("/ui/data");
    if (!answer.ok) throw new Error((await answer.json()).message);
    const data = await answer.json();
    $("server").textContent = `${data.state.toLowerCase()} · service ${data.service} · ${data.push_clients} push clients · `
      + `${number(data.pull_queries)} pulls · ${number(data.rows_inserted)} rows inserted`;
    history = data.history;
    changed("queries", data.queries, showQueries);
    changed("sources", data.sources, showSources);
    changed("errors", data.errors, showErrors);
  } catch (error) {
    $("server").textContent = `no answer from the server: ${error.message}`;
  }
}

function changed(part, data, show) {
  const text = JSON.stringify(data);
  if (text === known[part] && part !== "queries") return;
  known[part] = text;
  // A redrawn table must not take the focus away from whoever uses the keyboard.
  const focused = document.activeElement && document.activeElement.dataset.key;
  show(data);
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function rate(id) {
  const points = (history[id] ?? []).slice(-4);
  if (points.length < 2) return 0;
  const first = points[0], last = points[points.length - 1];
  return Math.round(10 * (last[1] - first[1]) / (last[0] - first[0])) / 10;
}

function sparkline(id, at, what) {
  const points = history[id] ?? [], width = 120, height = 24;
  if (points.length < 2) return "";
  const start = points[0][0], length = Math.max(1, points[points.length - 1][0] - start);
  const most = Math.max(1, ...points.map((point) => point[at]));
  const path = points.map((point, index) => `${index ? "L" : "M"}${((point[0] - start) * width / length).toFixed(1)} ${(height - 2 - (height - 4) * point[at] / most).toFixed(1)}`);
  const label = `${what} over the last ${Math.max(1, Math.round(length / 60))} minutes, now ${points[points.length - 1][at]}, at most ${most}`;
  return draw("svg", { width, height, role: "img", "aria-label": label }, draw("title", {}, label), draw("path", { d: path.join(""), class: "spark" }));
}

function showQueries(queries) {
  if (queries.length === 0) return $("queries").replaceChildren(make("p", { class: "soft" }, "No query runs. CREATE TABLE … AS SELECT … starts one."));
  $("queries").replaceChildren(table(["Query", "State", "Rows in", "per second", "Rows out", "over time", "Lag", "over time", "Bad records", "Statement"], queries.map((query) => [
    make("button", { class: "link", type: "button", "data-key": `query ${query.id}`, "aria-expanded": String(chosen === query.id), onclick: () => choose(query) }, query.id),
    make("span", { class: `state ${query.state}` }, query.state),
    query.rows_in, rate(query.id), query.rows_out, sparkline(query.id, 2, "rows out"), query.lag, sparkline(query.id, 3, "lag"), query.bad_records,
    make("td", { class: "code" }, query.statement, query.error ? make("div", { class: "bad" }, query.error) : null),
  ])));
}

function showSources(sources) {
  if (sources.length === 0) return $("sources").replaceChildren(make("p", { class: "soft" }, "There are none yet. CREATE STREAM declares one over a topic."));
  $("sources").replaceChildren(...sources.map((source) => make("details", {},
    make("summary", { "data-key": `source ${source.name}` }, make("strong", {}, source.name),
      ` ${source.kind.toLowerCase()}${source.windowed ? ", windowed" : ""} over topic ${source.topic} (${source.keyFormat}, ${source.valueFormat})`),
    table(["Column", "Type", ""], source.columns.map((column) => [column.name, column.type, column.role === "VALUE" ? "" : column.role.toLowerCase()])))));
}

function showErrors(errors) {
  if (errors.length === 0) return $("errors").replaceChildren(make("p", { class: "soft" }, "No record has failed."));
  $("errors").replaceChildren(table(["Time", "Logger", "Record", "Message"], [...errors].reverse().map((entry) => [
    make("td", { class: "time" }, new Date(entry.time).toLocaleTimeString()), make("td", { class: "code" }, entry.query),
    entry.topic === null ? "" : `${entry.topic}, partition ${entry.partition}, offset ${entry.offset}`,
    make("td", { class: "code" }, entry.message),
  ])));
}

// ---- the plan of a query, from its sources on the left to its sink on the right ----

async function choose(query) {
  if (chosen === query.id) {
    chosen = null;
    $("plan").hidden = true;
    return refresh();
  }
  const answer = await fetch(`/ui/plan/${encodeURIComponent(query.id)}`);
  if (!answer.ok) return;
  chosen = query.id;
  $("plan").hidden = false;
  $("plan-title").textContent = `Plan of ${query.id}`;
  $("graph").replaceChildren(graph(await answer.json()));
  $("step").textContent = "A step shows its schema when it is chosen.";
  refresh();
}

function graph(steps) {
  const WIDE = 190, HIGH = 46, GAP_X = 40, GAP_Y = 18;
  const byId = new Map(steps.map((step) => [step.id, step]));
  const deepest = Math.max(...steps.map((step) => step.depth));
  let leaves = 0;
  const place = (step) => {
    const below = step.inputs.map((id) => place(byId.get(id)));
    step.y = below.length ? below.reduce((sum, y) => sum + y, 0) / below.length : leaves++ * (HIGH + GAP_Y);
    step.x = (deepest - step.depth) * (WIDE + GAP_X);
    return step.y;
  };
  place(steps[0]);
  const width = (deepest + 1) * (WIDE + GAP_X) - GAP_X + 4, height = Math.max(1, leaves) * (HIGH + GAP_Y) - GAP_Y + 4;
  const edges = steps.flatMap((step) => step.inputs.map((id) => {
    const from = byId.get(id), x1 = from.x + WIDE, y1 = from.y + HIGH / 2, x2 = step.x - 6, y2 = step.y + HIGH / 2, mid = (x1 + x2) / 2;
    return draw("path", { class: "edge", d: `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}` });
  }));
  const nodes = steps.map((step) => {
    const node = draw("g", { class: "node", tabindex: "0", role: "button", transform: `translate(${step.x} ${step.y})`, "aria-label": `${step.step}, ${step.name}` },
      draw("rect", { width: WIDE, height: HIGH, rx: 6 }),
      draw("text", { x: 10, y: 19 }, step.step.replace(/V\d+$/, "")),
      draw("text", { x: 10, y: 36, class: "soft" }, step.name.length > 27 ? `${step.name.slice(0, 26)}…` : step.name));
    const show = () => {
      document.querySelectorAll(".node.chosen").forEach((other) => other.classList.remove("chosen"));
      node.classList.add("chosen");
      $("step").textContent = `${step.step} ${step.name}: ${step.schema}`;
    };
    node.addEventListener("click", show);
    node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(); } });
    return node;
  });
  const tip = draw("marker", { id: "tip", viewBox: "0 0 8 8", refX: 2, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, draw("path", { d: "M0 0L8 4L0 8Z", class: "tip" }));
  return draw("svg", { width, height, viewBox: `-2 -2 ${width} ${height}` }, draw("defs", {}, tip), ...edges, ...nodes);
}

// ---- the prompt ----

let running = null;

function say(text, bad = false) {
  $("outcome").textContent = text;
  $("outcome").className = bad ? "bad" : "soft";
}

async function run() {
  if (running) return;
  const text = $("sql").value.trim();
  if (!text) return;
  const properties = { "auto.offset.reset": $("earliest").checked ? "earliest" : "latest" };
  running = new AbortController();
  $("run").disabled = true;
  $("stop").disabled = false;
  $("result").replaceChildren();
  say("running …");
  try {
    const bare = text.replace(/^(\s|--[^\n]*(\n|$))+/, "");
    await (/^(select|print)\b/i.test(bare) ? ask(text, properties) : execute(text, properties));
  } catch (error) {
    if (error.name === "AbortError") say("stopped");
    else {
      say("");
      $("result").replaceChildren(make("pre", { class: "bad", role: "alert" }, error.message));
    }
  } finally {
    running = null;
    $("run").disabled = false;
    $("stop").disabled = true;
    refresh();
  }
}

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: running.signal });
  if (!answer.ok) {
    const error = await answer.json().catch(() => ({ message: answer.statusText }));
    throw new Error(error.message);
  }
  return answer;
}

async function execute(text, properties) {
  const entities = await (await post("/ksql", { ksql: text, streamsProperties: properties })).json();
  $("result").replaceChildren(...entities.map(entityOf));
  say(entities.length ? "" : "done");
}

function entityOf(entity) {
  if (entity.commandStatus) return make("p", {}, `${entity.commandStatus.message}`);
  if (entity.sourceDescription) return table(["Column", "Type", ""], entity.sourceDescription.fields.map((field) => [field.name, typeOf(field.schema), (field.type ?? "").toLowerCase()]));
  const lists = Object.entries(entity).filter(([name, value]) => Array.isArray(value) && name !== "warnings" && value.every((item) => item && typeof item === "object"));
  if (lists.length !== 1) return make("pre", {}, entity.message ?? JSON.stringify(entity, null, 2));
  const rows = lists[0][1];
  if (rows.length === 0) return make("p", { class: "soft" }, `no ${lists[0][0]}`);
  const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return table(heads, rows.map((row) => heads.map((head) => row[head])));
}

function typeOf(schema) {
  if (schema.fields) return `STRUCT<${schema.fields.map((field) => `${field.name} ${typeOf(field.schema)}`).join(", ")}>`;
  if (schema.memberSchema) return schema.type === "MAP" ? `MAP<STRING, ${typeOf(schema.memberSchema)}>` : `ARRAY<${typeOf(schema.memberSchema)}>`;
  return schema.parameters ? `DECIMAL(${schema.parameters.precision}, ${schema.parameters.scale})` : schema.type;
}

async function ask(text, properties) {
  const answer = await post("/query-stream", { sql: text, properties });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", body = null, count = 0;
  const take = (line) => {
    if (line.startsWith("rowtime: ")) {
      if (!body) $("result").replaceChildren(make("table", {}, body = make("tbody")));
      return add([line]);
    }
    const value = JSON.parse(line);
    if (Array.isArray(value)) return add(value);
    if (value.columnNames) {
      const view = table(value.columnNames, [], value.columnTypes.map((type) => /^(INTEGER|BIGINT|DOUBLE|DECIMAL)/.test(type)));
      body = view.querySelector("tbody");
      return $("result").replaceChildren(view);
    }
    if (value.message) throw new Error(value.message);
  };
  const add = (values) => {
    body.append(make("tr", {}, ...values.map((value) => make("td", typeof value === "number" ? { class: "number" } : {}, shown(value)))));
    if (body.rows.length > MOST_ROWS) body.rows[0].remove();
    count++;
  };
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    lines.filter((line) => line.trim()).forEach(take);
    say(`${number(count)} row${count === 1 ? "" : "s"}${done ? "" : " so far …"}`);
    if (lines.length) $("result").scrollTop = $("result").scrollHeight;
    if (done) break;
  }
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
$("stop").addEventListener("click", () => running?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && document.activeElement === $("sql")) { event.preventDefault(); run(); }
  if (event.key === "Escape") running?.abort();
});
refresh();
setInterval(refresh, EVERY_MS);
