// A graph of HTML nodes: dagre (dagre.LICENSE.txt) says where they stand, SVG draws what is between them.
import { Graph, layout } from "./dagre.js";
import { draw, make } from "./dom.js";

const LABEL = { width: 84, height: 18, labelpos: "c" };
const SMALLEST = 0.7;

// Draws into `host`, which must be visible: nodes have to be measured. `nodes` are [id, element], `edges` are
// { from, to, label }; a label may change later by `label(index, text)` of the result, and takes its room from the start.
export function drawGraph(host, nodes, edges, name) {
  const lines = draw("svg", { "aria-hidden": "true" });
  const sheet = make("div", { class: "sheet" }, lines, ...nodes.map(([, element]) => element));
  const frame = make("div", { class: "frame" }, sheet);
  host.replaceChildren(frame);
  const sizes = nodes.map(([, element]) => ({ width: element.offsetWidth, height: element.offsetHeight }));
  const room = host.clientWidth - 2;
  const ways = [() => arranged(nodes, sizes, edges, "LR"), () => arranged(nodes, sizes, edges, "TB"), () => stacked(nodes, sizes, edges, room)];
  let best;
  for (const way of ways) if ((best = way()).graph().width * SMALLEST <= room) break;
  const { width, height } = best.graph(), scale = Math.max(SMALLEST, Math.min(1, room / width));
  nodes.forEach(([id, element]) => {
    const at = best.node(id);
    Object.assign(element.style, { left: `${at.x - at.width / 2}px`, top: `${at.y - at.height / 2}px` });
  });
  const marker = `tip-${name}`;
  const tip = draw("marker", { id: marker, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, draw("path", { d: "M0 0L8 4L0 8Z", class: "tip" }));
  const drawn = edges.map(({ from, to, label }, index) => {
    const edge = best.edge(from, to, String(index));
    const text = make("span", { class: edge.beside ? "label beside" : "label" }, label ?? "");
    Object.assign(text.style, { left: `${edge.x ?? 0}px`, top: `${edge.y ?? 0}px` });
    return { path: draw("path", { class: "edge", d: curve(edge.points), "marker-end": `url(#${marker})` }), text };
  });
  for (const [key, value] of [["width", width], ["height", height]]) lines.setAttribute(key, value);
  lines.append(draw("defs", {}, tip), ...drawn.map((each) => each.path));
  sheet.append(...drawn.map((each) => each.text));
  Object.assign(sheet.style, { width: `${width}px`, height: `${height}px`, transform: scale === 1 ? "" : `scale(${scale})` });
  Object.assign(frame.style, { width: `${width * scale}px`, height: `${height * scale}px` });
  return { label: (index, text) => { drawn[index].text.textContent = text; } };
}

function arranged(nodes, sizes, edges, rankdir) {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir, nodesep: 18, ranksep: rankdir === "LR" ? 22 : 26, marginx: 2, marginy: 2 });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach(([id], at) => graph.setNode(id, { ...sizes[at] }));
  edges.forEach(({ from, to, label }, index) => graph.setEdge(from, to, label === undefined ? {} : { ...LABEL }, String(index)));
  layout(graph);
  return graph;
}

// For a narrow window: one node below the other, each after what leads to it. A line to the next node goes straight down;
// all others of a node share a track at the left, where no node stands and which no other node uses there.
function stacked(nodes, sizes, edges, room) {
  const order = followed(nodes, edges), size = new Map(nodes.map(([id], at) => [id, sizes[at]]));
  const into = (id) => edges.filter((edge) => edge.to === id);
  const isNext = ({ from, to }) => order.indexOf(to) === order.indexOf(from) + 1;
  const tops = new Map();
  let height = 0;
  for (const id of order) {
    const top = height + (into(id).some((edge) => edge.label !== undefined) ? LABEL.height + 6 : 14);
    tops.set(id, top);
    height = top + size.get(id).height;
  }
  // The shortest tracks are next to the nodes, so that the fewest lines cross.
  const used = [], trackOf = new Map();
  const spans = order.map((id) => {
    const ends = edges.filter((edge) => edge.from === id && !isNext(edge)).map((edge) => tops.get(edge.to));
    return { id, low: Math.min(tops.get(id), ...ends), high: Math.max(tops.get(id), ...ends), some: ends.length };
  });
  for (const span of spans.filter((each) => each.some).sort((one, other) => one.high - one.low - other.high + other.low)) {
    let track = used.findIndex((taken) => taken.every((each) => each.high < span.low || each.low > span.high));
    if (track < 0) track = used.push([]) - 1;
    used[track].push(span);
    trackOf.set(span.id, track);
  }
  const widest = Math.max(...sizes.map((each) => each.width)), gap = Math.max(5, Math.min(12, (room - widest) / (used.length + 1)));
  const left = used.length ? used.length * gap + 12 : 1;
  const places = new Map(order.map((id) => {
    const { width, height: own } = size.get(id);
    return [id, { x: left + width / 2, y: tops.get(id) + own / 2, width, height: own }];
  }));
  const edge = (from, to, index) => {
    const one = places.get(from), other = places.get(to), others = into(to), nth = others.indexOf(edges[index]);
    const label = { x: left + 22 + nth * LABEL.width, y: tops.get(to) - LABEL.height / 2 - 2, beside: true };
    const straight = left + 16;
    if (isNext(edges[index])) return { points: [{ x: straight, y: tops.get(from) + one.height }, { x: straight, y: tops.get(to) }], ...label };
    const x = left - 10 - trackOf.get(from) * gap, y = tops.get(to) + other.height * (nth + 1) / (others.length + 2);
    const begin = tops.get(from) + one.height - 8, down = Math.sign(y - begin) * 5;
    const points = [{ x: left, y: begin }, { x, y: begin }, { x, y: begin + down }, { x, y: y - down }, { x, y }, { x: left, y }];
    return { points, ...label };
  };
  return { node: (id) => places.get(id), edge, graph: () => ({ width: left + widest + 1, height: height + 2 }) };
}

// The nodes, each after all that lead to it and as soon as it can be; what is left over is a circle.
function followed(nodes, edges) {
  const order = new Set(), into = (id) => edges.filter((edge) => edge.to === id);
  const visit = (id) => {
    order.add(id);
    for (const { from, to } of edges) if (from === id && !order.has(to) && into(to).every((edge) => order.has(edge.from))) visit(to);
  };
  const roots = nodes.filter(([id]) => into(id).length === 0);
  for (const [id] of [...roots, ...nodes]) if (!order.has(id)) visit(id);
  return [...order];
}

// Through the middles of the lines between the points, so that it has no corners.
function curve(points) {
  const middle = (one, other) => `${((one.x + other.x) / 2).toFixed(1)} ${((one.y + other.y) / 2).toFixed(1)}`;
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  const last = points[points.length - 1];
  const bends = points.slice(1, -1).map((point, index) => `Q${at(point)} ${index === points.length - 3 ? at(last) : middle(point, points[index + 2])}`);
  return `M${at(points[0])}${bends.length ? bends.join("") : `L${at(last)}`}`;
}
