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
    const text = make("span", { class: "label" }, label ?? "");
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

// For a narrow window: one node below the other, each after what leads to it, and as far to the right as it is deep.
function stacked(nodes, sizes, edges, room) {
  const depth = new Map(), into = (id) => edges.filter((edge) => edge.to === id);
  const visit = (id, deep) => {
    depth.set(id, deep);
    for (const { from, to } of edges) {
      const before = into(to).map((edge) => depth.get(edge.from));
      if (from === id && !depth.has(to) && !before.includes(undefined)) visit(to, 1 + Math.max(...before));
    }
  };
  const roots = nodes.filter(([id]) => into(id).length === 0);
  // What is left over is a circle.
  for (const [id] of [...roots, ...nodes]) if (!depth.has(id)) visit(id, 0);
  const widest = Math.max(...sizes.map((size) => size.width)), deepest = Math.max(1, ...depth.values());
  const step = Math.max(6, Math.min(16, (room - widest) / deepest)), places = new Map(), size = new Map(nodes.map(([id], at) => [id, sizes[at]]));
  let height = 0;
  for (const [id, deep] of depth) {
    const { width, height: own } = size.get(id), top = height + (into(id).some((edge) => edge.label !== undefined) ? LABEL.height + 4 : 8);
    places.set(id, { x: deep * step + width / 2 + 1, y: top + own / 2, width, height: own });
    height = top + own;
  }
  const edge = (from, to, index) => {
    const one = places.get(from), other = places.get(to), left = one.x - one.width / 2 + step / 2, tip = other.x - other.width / 2;
    const nth = into(to).indexOf(edges[index]), down = Math.sign(other.y - one.y);
    const points = [{ x: left, y: one.y + down * one.height / 2 }, { x: left, y: other.y - down * 8 }, { x: left, y: other.y }, { x: tip, y: other.y }];
    return { points, x: tip + (nth + .5) * LABEL.width, y: other.y - other.height / 2 - LABEL.height / 2 - 1 };
  };
  const width = Math.max(...[...places.values()].map((place) => place.x + place.width / 2)) + 1;
  return { node: (id) => places.get(id), edge, graph: () => ({ width, height: height + 2 }) };
}

// Through the middles of the lines between the points, so that it has no corners.
function curve(points) {
  const middle = (one, other) => `${((one.x + other.x) / 2).toFixed(1)} ${((one.y + other.y) / 2).toFixed(1)}`;
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  const last = points[points.length - 1];
  const bends = points.slice(1, -1).map((point, index) => `Q${at(point)} ${index === points.length - 3 ? at(last) : middle(point, points[index + 2])}`);
  return `M${at(points[0])}${bends.length ? bends.join("") : `L${at(last)}`}`;
}
