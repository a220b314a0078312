// What the server says of itself, every two seconds; the other modules show it.
import { showApplication } from "./application.js";
import { $, count, plural } from "./dom.js";
import { remember } from "./figures.js";
import { openSource, showErrors, showSources } from "./lists.js";
import { startPrompt } from "./prompt.js";
import { choose, showQueries } from "./queries.js";

const EVERY_MS = 2000;
let seen = null;
const known = {};

async function refresh() {
  try {
    const answer = await fetch("/ui/data");
    if (!answer.ok) throw new Error((await answer.json()).message);
    seen = await answer.json();
    $("server").textContent = `${seen.state.toLowerCase()} · service ${seen.service} · ${plural(seen.push_clients, "push client")} · `
      + `${plural(seen.pull_queries, "pull")} · ${plural(seen.rows_inserted, "row")} inserted`;
    remember(seen.history);
    show();
  } catch (error) {
    $("server").textContent = `no answer from the server: ${error.message}`;
  }
}

function show() {
  showApplication(seen, (kind, name) => kind === "query" ? choose(name, true) : openSource(name));
  showQueries(seen.queries);
  whenChanged("sources", seen.sources, showSources);
  whenChanged("errors", [seen.errors, seen.bad_records], ([errors, total]) => showErrors(errors, total));
}

function whenChanged(part, data, view) {
  const text = JSON.stringify(data);
  if (text === known[part]) return;
  known[part] = text;
  view(data);
}

startPrompt(refresh);
refresh();
setInterval(refresh, EVERY_MS);
addEventListener("resize", () => { if (seen) show(); });
