// The plan of a query: its steps with their expressions, from the sources to the sink.
import { make, pressed } from "./dom.js";
import { drawGraph } from "./graph.js";

export function showPlan(host, steps, say) {
  if (steps.length === 0) return;
  const nodes = steps.map((step) => {
    const node = make("div", { class: "node step", tabindex: "0", role: "button", "aria-label": `${step.step}, ${step.name}` },
      make("small", {}, step.name), make("span", {}, step.step.replace(/V\d+$/, "")), ...step.texts.map((text) => make("code", {}, text)));
    return [`${step.id}`, pressed(node, () => {
      nodes.forEach(([, other]) => other.classList.toggle("chosen", other === node));
      say(`${step.step} ${step.name}: ${step.schema}`);
    })];
  });
  const edges = steps.flatMap((step) => step.inputs.map((id) => ({ from: `${id}`, to: `${step.id}` })));
  drawGraph(host, nodes, edges, "plan");
}
