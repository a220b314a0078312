// A graph of HTML nodes: dagre (dagre.LICENSE.txt) says where they stand, SVG draws what is between them.
import { Graph, layout } from "./dagre.js";
import { draw, make } from "./dom.js";

const LABEL = { width: 84, height: 18, labelpos: "c" };
const SMALLEST = 0.6;

// Draws into `host`, which must be visible: nodes have to be measured. `nodes` are [id, element], `edges` are
// { from, to, label }; a label may change later by `label(index, text)` of the result, and takes its room from the start.
export function drawGraph(host, nodes, edges, name) {
  const lines = draw("svg", { "aria-hidden": "true" });
  const sheet = make("div", { class: "sheet" }, lines, ...nodes.map(([, element]) => element));
  const frame = make("div", { class: "frame" }, sheet);
  host.replaceChildren(frame);
  const sizes = nodes.map(([, element]) => ({ width: element.offsetWidth, height: element.offsetHeight }));
  const room = host.clientWidth - 2;
  const across = arranged(nodes, sizes, edges, "LR"), down = arranged(nodes, sizes, edges, "TB");
  const best = across.graph().width * SMALLEST <= room || across.graph().width <= down.graph().width ? across : down;
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

// Through the middles of the lines between the points, so that it has no corners.
function curve(points) {
  const middle = (one, other) => `${((one.x + other.x) / 2).toFixed(1)} ${((one.y + other.y) / 2).toFixed(1)}`;
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  const last = points[points.length - 1];
  const bends = points.slice(1, -1).map((point, index) => `Q${at(point)} ${index === points.length - 3 ? at(last) : middle(point, points[index + 2])}`);
  return `M${at(points[0])}${bends.length ? bends.join("") : `L${at(last)}`}`;
}
