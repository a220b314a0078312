// Rates and curves from the samples that the server takes of every query: time, rows in, rows out, lag.
import { draw } from "./dom.js";

export const IN = 1, OUT = 2, LAG = 3;

let history = {};

export function remember(samples) {
  history = samples;
}

// Rows a second, over the last samples.
export function rate(id, at) {
  const points = (history[id] ?? []).slice(-4);
  if (points.length < 2) return 0;
  const first = points[0], last = points[points.length - 1];
  return Math.max(0, Math.round(10 * (last[at] - first[at]) / (last[0] - first[0])) / 10);
}

export function sparkline(id, at, what) {
  const points = history[id] ?? [], width = 72, height = 20;
  if (points.length < 2) return null;
  const start = points[0][0], length = Math.max(1, points[points.length - 1][0] - start);
  const most = Math.max(1, ...points.map((point) => point[at]));
  const path = points.map((point, index) => `${index ? "L" : "M"}${((point[0] - start) * width / length).toFixed(1)} ${(height - 2 - (height - 4) * point[at] / most).toFixed(1)}`);
  const label = `${what} over the last ${Math.max(1, Math.round(length / 60))} minutes, now ${points[points.length - 1][at]}, at most ${most}`;
  return draw("svg", { width, height, role: "img", "aria-label": label }, draw("title", {}, label), draw("path", { d: path.join(""), class: "spark" }));
}
