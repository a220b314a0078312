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
      make("p", { class: "dim" }, `${each.file}:${each.line} · ${each.seconds} s${each.carrier ? ` on ${each.carrier}` : ""}${each.rules.length ? ` · rules ${each.rules.join(", ")}` : ""}${each.compared ? ` · compared ${each.compared}` : ""}`),
    ];
    if (each.reason) parts.push(make("h3", {}, each.status === "failed" ? "Why it failed" : "Reason"), make("pre", { class: "reason" }, each.reason));
    if (each.differences.length) parts.push(make("h3", {}, "Differences"), make("div", { class: "wide" }, differences(each)));
    parts.push(make("h3", {}, each.script ? `Statements of ${each.script}` : "Statements"), ...each.statements.map(highlighted));
    if (each.inputs.length || each.outputs.length) parts.push(make("h3", {}, "Records"), timeline(each), records(each));
    if (each.graph && each.graph.nodes.length) parts.push(make("h3", {}, "Plan"), graph(each.graph));
    if (each.sql && each.sql.length) parts.push(make("details", {}, make("summary", {}, "stages"),
      ...each.sql.flatMap((stage) => [make("p", { class: "dim" }, `${stage.query}, stage ${stage.stage}`), highlighted(stage.text)])));
    return parts;
  }

  function differences(each) {
    const body = make("tbody");
    for (const one of each.differences) {
      const what = { differs: "differs", missing: "is missing", unexpected: "is not expected", order: "stands elsewhere" }[one.kind];
      body.append(make("tr", {}, make("th", { colspan: 3 }, `topic ${one.topic}, record ${one.index} ${what}${one.line ? ` (line ${one.line})` : ""}`,
        one.cause ? make("small", { class: "dim" }, ` ${one.cause}`) : null)));
      for (const [column, expected, actual] of one.columns)
        body.append(make("tr", {}, cell("", column), cell("expected", expected, "expected"), cell("actual", actual, "actual")));
    }
    const head = make("thead", {}, make("tr", {}, ...["column", "expected", "actual"].map((name) => make("th", {}, name))));
    return make("table", { class: "differences cards" }, head, body);
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

  // Epoch milliseconds, and beside them what people read.
  const readable = (ms) => Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString().replace("T", " ").replace("Z", "") : "";
  const instant = (ms) => ms === null || ms === undefined ? [] : [String(ms), " ", make("small", { class: "dim" }, readable(ms))];
  const cell = (head, text, kind) => make("td", { "data-head": head, class: kind }, ...(Array.isArray(text) ? text : [text]).filter((part) => part !== ""));

  const COLUMNS = [
    ["key", (row) => row.key], ["value", (row) => row.value], ["timestamp", (row) => instant(row.timestamp)],
    ["event time", (row) => row.eventTime === null ? "none: dropped" : instant(row.eventTime), (row) => "eventTime" in row && row.eventTime !== row.timestamp],
    ["window", (row) => row.window ? [...instant(row.window[0]), " – ", ...instant(row.window[1])] : "", (row) => row.window],
    ["partition", (row) => String(row.partition ?? ""), (row) => row.partition],
    ["headers", (row) => row.headers.map(([name, value]) => `${name}: ${value}`).join(", "), (row) => row.headers.length],
  ];

  // A record that differs carries the word for it; one that is missing stands where it was expected.
  function outputsOf(each) {
    const marks = new Map(each.differences.filter((one) => one.row !== null).map((one) => [one.row, one.kind]));
    const outputs = each.outputs.map((row, n) => ({ ...row, mark: marks.get(n) }));
    for (const one of each.differences.filter((missing) => missing.expected).reverse()) {
      const own = outputs.findIndex((row) => row.topic === one.topic);
      outputs.splice(own < 0 ? outputs.length : own + one.index, 0, { ...one.expected, cause: null, mark: "missing" });
    }
    return outputs;
  }

  function records(each) {
    const outputs = outputsOf(each);
    const guilty = new Set(outputs.filter((row) => row.mark).map((row) => row.cause));
    const inputs = each.inputs.map((row, n) => ({ ...row, cause: n, mark: guilty.has(n) ? "cause" : undefined }));
    return make("div", {}, ...[["in: topic", inputs, "inputs"], ["out: topic", outputs, "outputs"]].filter(([, rows]) => rows.length).map((each) => table(...each)));
  }

  function table(title, rows, kind) {
    const columns = [[title, (row) => row.mark ? [row.topic, make("small", { class: "mark" }, ` ${row.mark}`)] : row.topic],
      ...COLUMNS.filter(([, , shows]) => !shows || rows.some(shows))];
    const body = make("tbody", {}, ...rows.map((row) => causes(make("tr", { title: row.place || null, class: row.mark ? `marked ${row.mark}` : null },
      ...columns.map(([head, text]) => cell(head, text(row), head === "value" ? "value" : null))), row.cause)));
    const head = make("thead", {}, make("tr", {}, ...columns.map(([name]) => make("th", {}, name))));
    return make("div", { class: "wide" }, make("table", { class: `${kind} cards` }, head, body));
  }

  // At the event times of the inputs: those of a TIMESTAMP column, where there is one. A record that is missing, and of
  // which a case says neither time nor window, stands at the end of the line.
  function timeline(each) {
    const timeOf = (row) => row.eventTime ?? row.timestamp ?? (row.mark === "missing" ? row.window?.[0] ?? null : 0);
    const all = [...each.inputs.map((row, n) => ({ ...row, way: "in", cause: n })), ...outputsOf(each).map((row) => ({ ...row, way: "out" }))];
    const times = all.flatMap((row) => [timeOf(row), ...(row.window || [])]).filter((time) => time !== null && Math.abs(time) < 8e15);
    const low = Math.min(...times), span = Math.max(Math.max(...times) - low, 1);
    const room = Math.min($("case").clientWidth - 44, 780), left = Math.min(130, room * 0.3), width = room - left - 30;
    const x = (time) => left + 10 + (Math.min(Math.max(time - low, 0), span) / span) * width;
    const lanes = [...new Set(all.map((row) => `${row.way} ${row.topic}`))];
    // On a phone the two ends of the line have no room beside each other.
    const below = width < 320 ? 30 : 0;
    const picture = svg("svg", { viewBox: `0 0 ${left + width + 30} ${lanes.length * 34 + 40 + below}`, width: left + width + 30, role: "img", "aria-label": "records on a time line" });
    lanes.forEach((lane, n) => {
      const y = n * 34 + 20;
      picture.append(svg("line", { x1: left, y1: y, x2: left + width + 20, y2: y, class: "edge" }), svg("text", { x: 2, y: y + 4 }, wrapped(lane, left - 4, 1)[0]));
      const seen = {};
      for (const row of all.filter((one) => `${one.way} ${one.topic}` === lane)) {
        if (row.window) picture.append(svg("rect", { x: x(row.window[0]), y: y - 10, width: Math.max(x(row.window[1]) - x(row.window[0]), 3), height: 20, class: "window" }));
        const time = timeOf(row), at = time === null ? left + width + 20 : x(time), pile = (seen[Math.round(at / 6)] = (seen[Math.round(at / 6)] || 0) + 1) - 1;
        const dot = svg("circle", { cx: at, cy: y - Math.min(pile, 3) * 5, r: 5, class: row.mark ? `${row.way} marked ${row.mark}` : row.way, "data-time": time },
          svg("title", {}, `${row.topic}${time === null ? "" : ` at ${time} (${readable(time)})`}\nkey ${row.key}\nvalue ${row.value}${row.mark ? `\n${row.mark}` : ""}`));
        picture.append(causes(dot, row.cause));
      }
    });
    const foot = (time, at, anchor, drop) => [[String(time), 20], [readable(time), 34]].map(([text, down]) => svg("text", { x: at, y: lanes.length * 34 + down + drop, "text-anchor": anchor, class: down > 20 ? "dim" : null }, text));
    picture.append(...foot(low, left, "start", 0), ...foot(low + span, left + width + 20, "end", below));
    return make("div", { class: "wide timeline" }, picture);
  }

  // From the topics at the top to the last sink, as wide as the page lets it be; a detail takes the lines that it needs.
  function graph(plan) {
    const gap = 12, line = 14, most = 6, columns = Math.max(...plan.nodes.map((node) => node.row)) + 1;
    const wide = Math.min(420, Math.max(150, ($("case").clientWidth - 44) / columns - gap)), room = wide - 16;
    const lines = new Map(plan.nodes.map((node) => [node.id, [...wrapped(node.label, room, 2), ...wrapped(node.detail, room, most)]]));
    const layers = Array.from({ length: Math.max(...plan.nodes.map((node) => node.layer)) + 1 }, (_, layer) => plan.nodes.filter((node) => node.layer === layer));
    const place = {}, high = (node) => lines.get(node.id).length * line + 12;
    let top = 4;
    for (const layer of layers) {
      for (const node of layer) place[node.id] = [4 + node.row * (wide + gap), top];
      top += Math.max(0, ...layer.map(high)) + 24;
    }
    const width = columns * (wide + gap) - gap + 8;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${top}`, width, height: top, role: "img", "aria-label": "plan" },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "edge" }))));
    const byId = new Map(plan.nodes.map((node) => [node.id, node]));
    for (const [from, to] of plan.edges) {
      const x1 = place[from][0] + wide / 2, y1 = place[from][1] + high(byId.get(from)), x2 = place[to][0] + wide / 2, y2 = place[to][1];
      picture.append(svg("path", { d: `M${x1} ${y1} C${x1} ${y1 + 14} ${x2} ${y2 - 14} ${x2} ${y2}`, class: "edge", "marker-end": "url(#arrow)" }));
    }
    for (const node of plan.nodes) {
      const [x, y] = place[node.id], names = wrapped(node.label, room, 2).length;
      picture.append(svg("g", {}, svg("rect", { x, y, width: wide, height: high(node), rx: node.is_topic ? 16 : 4, class: node.is_topic ? "topic" : "box" }),
        ...lines.get(node.id).map((text, n) => svg("text", { x: x + 8, y: y + 16 + n * line, class: n < names ? null : "dim" }, text)),
        svg("title", {}, `${node.label}\n${node.detail}`)));
    }
    return make("div", { class: "wide graph" }, picture);
  }

  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = "11px system-ui, sans-serif";

  // How many letters of a text fit into pixels.
  function fitting(text, room) {
    let letters = text.length;
    while (letters > 1 && ruler.measureText(text.slice(0, letters)).width > room) letters--;
    return letters;
  }

  function wrapped(text, room, most) {
    const lines = [];
    for (let rest = text; rest && lines.length < most;) {
      const letters = fitting(rest, room), space = rest.length <= letters ? rest.length : rest.lastIndexOf(" ", letters), at = space > letters / 3 ? space : letters;
      lines.push(lines.length === most - 1 && rest.length > at ? `${rest.slice(0, letters - 1)}…` : rest.slice(0, at));
      rest = rest.slice(at).trimStart();
    }
    return lines;
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
