// The application as one graph: topics, streams and tables, and the queries between them.
import { $, count, make, pressed } from "./dom.js";
import { IN, OUT, rate } from "./figures.js";
import { drawGraph } from "./graph.js";

let drawn = null, shape = "";

// Draws the graph anew when it has other nodes or another width; else changes the figures on it.
export function showApplication({ sources, queries }, choose) {
  if (sources.length === 0) {
    shape = "";
    $("application").replaceChildren(make("p", { class: "soft" }, "There is nothing yet. CREATE STREAM declares a stream over a topic; CREATE TABLE … AS SELECT … starts a query."));
    return;
  }
  const edges = edgesOf(sources, queries);
  const now = JSON.stringify([sources.map((source) => [source.name, source.topic]), queries.map((query) => [query.id, query.state]), edges.map((edge) => [edge.from, edge.to]), $("application").clientWidth]);
  if (now === shape) {
    edges.forEach((edge, index) => drawn.label(index, edge.label ?? ""));
    return;
  }
  shape = now;
  const topics = edges.filter((edge) => edge.from.startsWith("topic ")).map((edge) => edge.from.slice(6));
  const nodes = [
    ...[...new Set(topics)].map((topic) => [`topic ${topic}`, box("topic", "topic", topic)]),
    ...sources.map((source) => [`source ${source.name}`, pressed(box(source.kind.toLowerCase(), kindOf(source), source.name, true), () => choose("source", source.name))]),
    ...queries.map((query) => [`query ${query.id}`, pressed(box(`query ${query.state}`, query.state === "RUNNING" ? "query" : `query, ${query.state}`, query.id, true), () => choose("query", query.id))]),
  ];
  drawn = drawGraph($("application"), nodes, edges, "application");
}

function kindOf(source) {
  const own = source.topic === source.name ? "" : ` · ${source.topic}`;
  return `${source.kind.toLowerCase()}${source.windowed ? ", windowed" : ""}${own}`;
}

function box(kind, what, name, chosen = false) {
  return make("div", { class: `node ${kind}`, title: name, ...(chosen ? { tabindex: "0", role: "button", "aria-label": `${what} ${name}` } : {}) },
    make("small", {}, what), make("span", {}, name));
}

// A topic that nobody here writes is a node; a source over the topic of a sink hangs on that sink.
function edgesOf(sources, queries) {
  const written = new Map(), byName = new Map(sources.map((source) => [source.name, source])), edges = [];
  for (const query of queries) if (byName.has(query.sink)) written.set(byName.get(query.sink).topic, query.sink);
  for (const source of sources) {
    const writer = written.get(source.topic);
    if (writer !== source.name && !queries.some((query) => query.sink === source.name))
      edges.push({ from: writer ? `source ${writer}` : `topic ${source.topic}`, to: `source ${source.name}` });
  }
  for (const query of queries) {
    const read = [...new Set(query.sources)].filter((name) => byName.has(name));
    for (const name of read) edges.push({ from: `source ${name}`, to: `query ${query.id}`, label: reading(query, byName.get(name).topic, read.length === 1) });
    if (byName.has(query.sink)) edges.push({ from: `query ${query.id}`, to: `source ${query.sink}`, label: perSecond(query.id, OUT) });
  }
  return edges;
}

function reading(query, topic, alone) {
  const lag = query.lags?.[topic] ?? (alone ? query.lag : 0);
  return [alone ? perSecond(query.id, IN) : "", lag ? `lag ${count(lag)}` : ""].filter(Boolean).join(" · ");
}

const perSecond = (id, at) => `${count(rate(id, at))}/s`;
