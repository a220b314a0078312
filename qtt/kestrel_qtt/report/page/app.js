"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  // All text goes through text nodes and attributes: nothing of a case is read as HTML.
  const make = (tag, props = {}, ...kids) => {
    const node = props.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(props)) if (name !== "svg" && value !== undefined && value !== null) node.setAttribute(name, value);
    node.append(...kids.filter((kid) => kid !== null && kid !== undefined));
    return node;
  };
  const svg = (tag, props, ...kids) => make(tag, { ...props, svg: true }, ...kids);

  const letters = atob($("data").textContent);
  const bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = JSON.parse(await new Response(stream).text());
  const cases = data.cases;
  for (const each of cases) each.text = [each.id, each.name, each.file, ...each.statements, ...each.rules].join("\n").toLowerCase();

  const counts = {};
  for (const each of cases) counts[each.status] = (counts[each.status] || 0) + 1;
  let status = "", shown = [], at = -1;
  $("summary").textContent = data.summary.text;

  const filters = ["", "failed", "error", "passed", "skipped"].filter((name) => !name || counts[name]);
  for (const name of filters) {
    const button = make("button", { type: "button", "aria-pressed": name === status, "data-status": name }, name ? `${name} ${counts[name]}` : `all ${cases.length}`);
    button.onclick = () => { status = name; list(); };
    $("filters").append(button);
  }

  function list() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = cases.filter((each) => (!status || each.status === status) && words.every((word) => each.text.includes(word)));
    for (const button of $("filters").children) button.setAttribute("aria-pressed", button.dataset.status === status);
    $("list").replaceChildren(...shown.map((each, index) => {
      const link = make("a", { href: `#${encodeURIComponent(each.id)}` },
        make("span", { class: each.status }, { passed: "✓ ", failed: "✗ ", error: "! ", skipped: "– " }[each.status]),
        each.name, make("small", {}, `${each.id.split("::")[0]} · ${each.seconds} s`));
      link.onclick = (event) => { event.preventDefault(); open(index); };
      return link;
    }));
    const kept = shown.findIndex((each) => each.id === decodeURIComponent(location.hash.slice(1)));
    if (shown.length) open(Math.max(kept, 0)); else $("case").replaceChildren(make("p", { class: "dim" }, "no case fits"));
  }

  function open(index) {
    at = index;
    const each = shown[index];
    [...$("list").children].forEach((link, n) => link.setAttribute("aria-current", n === index));
    $("list").children[index].scrollIntoView({ block: "nearest" });
    history.replaceState(null, "", `#${encodeURIComponent(each.id)}`);
    $("case").replaceChildren(...view({ ...each, ...JSON.parse(each.details) }));
    $("case").scrollTop = 0;
  }

  const KEYWORDS = /^(ADD|ALTER|AND|AS|BETWEEN|BY|CASE|CAST|CHANGES|CREATE|DECIMAL|DEFINE|DELETE|DESCRIBE|DOUBLE|DROP|ELSE|EMIT|END|EXISTS|FINAL|FROM|FULL|GRACE|GROUP|HAVING|HOPPING|IF|IN|INNER|INSERT|INT|INTEGER|BIGINT|INTO|IS|JOIN|KEY|LEFT|LIKE|NOT|NULL|ON|OR|OUTER|OVER|PARTITION|PERIOD|PRIMARY|REPLACE|RIGHT|SELECT|SESSION|SET|SIZE|SOURCE|STREAM|STRING|STRUCT|TABLE|TERMINATE|THEN|TUMBLING|TYPE|UNION|VALUES|WHEN|WHERE|WINDOW|WITH|WITHIN|ARRAY|MAP|BOOLEAN|TIMESTAMP)$/i;
  function highlighted(text) {
    const pre = make("pre", { class: "sql" });
    const tokens = /(--[^\n]*|\/\*[\s\S]*?\*\/)|('(?:[^']|'')*')|\b(\d+(?:\.\d+)?)\b|([A-Za-z_]\w*)|([\s\S])/g;
    for (const [whole, comment, string, number, word] of text.matchAll(tokens)) {
      const kind = comment ? "c" : string ? "s" : number ? "n" : word && KEYWORDS.test(word) ? "k" : "";
      pre.append(kind ? make("span", { class: kind }, whole) : whole);
    }
    return pre;
  }

  function view(each) {
    const parts = [
      make("h2", {}, make("span", { class: each.status }, `${each.status} `), each.name),
      make("p", { class: "dim" }, `${each.file}:${each.line} · ${each.seconds} s${each.rules.length ? ` · rules ${each.rules.join(", ")}` : ""}${each.compared ? ` · compared ${each.compared}` : ""}`),
    ];
    if (each.reason && !each.differences.length) parts.push(make("pre", {}, each.reason));
    if (each.differences.length) parts.push(make("h3", {}, "Differences"), differences(each));
    parts.push(make("h3", {}, each.script ? `Statements of ${each.script}` : "Statements"), ...each.statements.map(highlighted));
    if (each.inputs.length || each.outputs.length) parts.push(make("h3", {}, "Records"), timeline(each), records(each));
    if (each.graph && each.graph.nodes.length) parts.push(make("h3", {}, "Plan"), graph(each.graph));
    if (each.sql && each.sql.length) parts.push(make("details", {}, make("summary", {}, "Spark SQL"),
      ...each.sql.flatMap((stage) => [make("p", { class: "dim" }, `${stage.query}, stage ${stage.stage}`), highlighted(stage.text)])));
    return parts;
  }

  function differences(each) {
    const body = make("tbody");
    for (const one of each.differences) {
      const what = { differs: "differs", missing: "is missing", unexpected: "is not expected", order: "stands elsewhere" }[one.kind];
      body.append(make("tr", {}, make("th", { colspan: 3 }, `topic ${one.topic}, record ${one.index} ${what}${one.line ? ` (line ${one.line})` : ""}`)));
      for (const [column, expected, actual] of one.columns)
        body.append(make("tr", {}, make("td", {}, column), make("td", { class: "expected" }, expected), make("td", { class: "actual" }, actual)));
    }
    const head = make("thead", {}, make("tr", {}, ...["column", "expected", "actual"].map((name) => make("th", {}, name))));
    return make("table", { class: "differences" }, head, body);
  }

  function hit(cause) {
    for (const node of $("case").querySelectorAll("[data-cause]")) node.classList.toggle("hit", cause !== null && node.dataset.cause === String(cause));
  }
  function causes(node, cause) {
    if (cause === null || cause === undefined) return node;
    node.setAttribute("data-cause", cause);
    node.addEventListener("mouseenter", () => hit(cause));
    node.addEventListener("mouseleave", () => hit(null));
    return node;
  }

  function records(each) {
    const table = (title, rows, isInput) => {
      const body = make("tbody", {}, ...rows.map((row, n) => causes(make("tr", { title: isInput ? row.place : null },
        ...[row.topic, row.key, row.value, row.timestamp ?? "", row.window ? row.window.join(" – ") : ""].map((cell) => make("td", {}, String(cell)))), isInput ? n : row.cause)));
      const head = make("thead", {}, make("tr", {}, ...[title, "key", "value", "timestamp", "window"].map((name) => make("th", {}, name))));
      return make("table", { class: isInput ? "inputs" : "outputs" }, head, body);
    };
    return make("div", {}, table("in: topic", each.inputs, true), make("p", {}), table("out: topic", each.outputs, false));
  }

  function timeline(each) {
    const all = [...each.inputs.map((row, n) => ({ ...row, way: "in", cause: n })), ...each.outputs.map((row) => ({ ...row, way: "out" }))];
    const times = all.flatMap((row) => [row.timestamp ?? 0, ...(row.window || [])]).filter((time) => Math.abs(time) < 8e15);
    const low = Math.min(...times), span = Math.max(Math.max(...times) - low, 1), left = 130, width = 620;
    const x = (time) => left + 10 + (Math.min(Math.max(time - low, 0), span) / span) * width;
    const lanes = [...new Set(all.map((row) => `${row.way} ${row.topic}`))];
    const picture = svg("svg", { viewBox: `0 0 ${left + width + 30} ${lanes.length * 34 + 26}`, width: left + width + 30, role: "img", "aria-label": "records on a time line" });
    lanes.forEach((lane, n) => {
      const y = n * 34 + 20;
      picture.append(svg("line", { x1: left, y1: y, x2: left + width + 20, y2: y, class: "edge" }), svg("text", { x: 2, y: y + 4 }, lane.length > 22 ? `${lane.slice(0, 21)}…` : lane));
      const seen = {};
      for (const row of all.filter((one) => `${one.way} ${one.topic}` === lane)) {
        if (row.window) picture.append(svg("rect", { x: x(row.window[0]), y: y - 10, width: Math.max(x(row.window[1]) - x(row.window[0]), 3), height: 20, class: "window" }));
        const at = x(row.timestamp ?? 0), pile = (seen[Math.round(at / 6)] = (seen[Math.round(at / 6)] || 0) + 1) - 1;
        const dot = svg("circle", { cx: at, cy: y - Math.min(pile, 3) * 5, r: 5, class: row.way }, svg("title", {}, `${row.topic} at ${row.timestamp}\nkey ${row.key}\nvalue ${row.value}`));
        picture.append(causes(dot, row.cause));
      }
    });
    picture.append(svg("text", { x: left, y: lanes.length * 34 + 20 }, String(low)), svg("text", { x: left + width - 60, y: lanes.length * 34 + 20 }, String(low + span)));
    return make("div", { class: "wide timeline" }, picture);
  }

  function graph(plan) {
    const wide = 190, high = 62, place = {};
    const columns = Math.max(...plan.nodes.map((node) => node.layer)) + 1, rows = Math.max(...plan.nodes.map((node) => node.row)) + 1;
    for (const node of plan.nodes) place[node.id] = [node.layer * wide + 6, node.row * high + 6];
    const picture = svg("svg", { viewBox: `0 0 ${columns * wide} ${rows * high}`, width: columns * wide, role: "img", "aria-label": "plan" },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "edge" }))));
    for (const [from, to] of plan.edges) {
      const [x1, y1] = place[from], [x2, y2] = place[to];
      picture.append(svg("path", { d: `M${x1 + 150} ${y1 + 22} C${x1 + 172} ${y1 + 22} ${x2 - 22} ${y2 + 22} ${x2} ${y2 + 22}`, class: "edge", "marker-end": "url(#arrow)" }));
    }
    const short = (text) => (text.length > 25 ? `${text.slice(0, 24)}…` : text);
    for (const node of plan.nodes) {
      const [x, y] = place[node.id];
      picture.append(svg("g", {}, svg("rect", { x, y, width: 150, height: 44, rx: node.is_topic ? 20 : 4, class: node.is_topic ? "topic" : "box" }),
        svg("text", { x: x + 8, y: y + (node.detail ? 18 : 26) }, short(node.label)), svg("text", { x: x + 8, y: y + 35, class: "dim" }, short(node.detail)),
        svg("title", {}, `${node.label}\n${node.detail}`)));
    }
    return make("div", { class: "wide graph" }, picture);
  }

  function theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (document.documentElement.style.colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.style.colorScheme = dark ? "light" : "dark";
  }
  $("theme").onclick = theme;
  $("search").oninput = list;
  document.addEventListener("keydown", (event) => {
    const typing = event.target === $("search");
    if (event.key === "Escape" && typing) { $("search").blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (move && shown.length) { event.preventDefault(); open(Math.min(Math.max(at + move, 0), shown.length - 1)); }
    else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "f") { status = status === "failed" ? "" : "failed"; list(); }
    else if (event.key === "t") theme();
  });

  if (counts.failed) status = location.hash ? "" : "failed";
  list();
  document.body.dataset.ready = "true";
})();
