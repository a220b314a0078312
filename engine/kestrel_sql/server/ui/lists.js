// Streams and tables with their columns, and the processing log.
import { $, count, make, plural } from "./dom.js";
import { table } from "./entities.js";

export function showSources(sources) {
  const open = new Set([...$("sources").querySelectorAll("details[open]")].map((each) => each.dataset.name));
  if (sources.length === 0) return $("sources").replaceChildren(make("p", { class: "soft" }, "There are none yet. CREATE STREAM declares one over a topic."));
  $("sources").replaceChildren(...sources.map((source) => make("details", { "data-name": source.name, open: open.has(source.name) },
    make("summary", {}, make("strong", {}, source.name),
      ` ${source.kind.toLowerCase()}${source.windowed ? ", windowed" : ""} over topic ${source.topic} (${source.keyFormat}, ${source.valueFormat})`),
    table(["Column", "Type", ""], source.columns.map((column) => [column.name, column.type, column.role === "VALUE" ? "" : column.role.toLowerCase()])))));
}

export function openSource(name) {
  const found = [...$("sources").children].find((each) => each.dataset.name === name);
  if (!found) return;
  found.open = true;
  found.scrollIntoView({ block: "nearest" });
}

export function showErrors(errors, total) {
  const latest = errors[errors.length - 1];
  $("log-summary").textContent = latest ? `${plural(total, "bad record")}, the last at ${new Date(latest.time).toLocaleTimeString()}` : "No record has failed";
  $("log").classList.toggle("bad-log", Boolean(latest));
  $("errors").replaceChildren(...(latest ? [make("div", { class: "grid" }, make("table", { class: "cards" },
    make("thead", {}, make("tr", {}, ...["Time", "Logger", "Record", "Message"].map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...[...errors].reverse().map(line))))] : []));
}

function line(entry) {
  const record = entry.topic === null ? "" : `${entry.topic}, partition ${entry.partition}, offset ${count(entry.offset)}`;
  return make("tr", {}, make("td", { "data-head": "Time", class: "time" }, new Date(entry.time).toLocaleTimeString()),
    make("td", { "data-head": "Logger", class: "code" }, entry.query), make("td", { "data-head": "Record" }, record), make("td", { "data-head": "", class: "code" }, entry.message));
}
