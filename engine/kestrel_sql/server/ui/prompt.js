// The prompt: several statements and queries one after another, each with its result, and what was typed before.
import { exact } from "./cells.js";
import { $, make, plural } from "./dom.js";
import { entityNodes } from "./entities.js";
import { readRows, Result } from "./result.js";
import { requestsOf } from "./statements.js";

const KEPT = 100, KEY = "kestrel.history";
let running = null, typed = [], back = -1;

function say(text) {
  $("outcome").textContent = text;
}

async function run(after) {
  const text = $("sql").value;
  const requests = requestsOf(text, { "auto.offset.reset": $("earliest").checked ? "earliest" : "latest" });
  if (running || requests.length === 0) return;
  remember(text.trim());
  running = new AbortController();
  $("run").disabled = true;
  $("stop").disabled = false;
  $("result").replaceChildren();
  let done = 0;
  for (const request of requests) {
    say(requests.length === 1 ? "running …" : `running ${done + 1} of ${requests.length} …`);
    if (!await one(request)) break;
    done++;
    after();
  }
  const left = requests.slice(done + 1).reduce((sum, request) => sum + request.title.length, 0);
  say(done === requests.length ? "done" : `${running.signal.aborted ? "stopped" : "failed"}${left ? `; ${plural(left, "statement")} not run` : ""}`);
  running = null;
  $("run").disabled = false;
  $("stop").disabled = true;
  showTop($("result").firstElementChild);
  after();
}

// Of a finished result, people want to see the top.
function showTop(node) {
  const top = node.getBoundingClientRect().top;
  if (top < 60 || top > innerHeight / 2) node.scrollIntoView({ block: "start" });
}

// Whether the request was carried out to its end.
async function one(request) {
  const result = new Result(request.title.join(" ").replace(/\s+/g, " "));
  $("result").append(result.node);
  result.node.scrollIntoView({ block: "nearest" });
  try {
    await (request.isQuery ? ask(request, result) : execute(request, result));
    result.end();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") result.fail(error.message);
    result.end(error.name === "AbortError" ? "stopped" : "failed");
    return false;
  }
}

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: running.signal });
  if (answer.ok) return answer;
  const error = await answer.text().then(exact).catch(() => ({ message: answer.statusText }));
  throw Object.assign(new Error(error.message), { entities: error.entities ?? [] });
}

async function ask({ sql, properties, variables }, result) {
  await readRows(await post("/query-stream", { sql, properties, sessionVariables: variables }), result);
}

async function execute({ sql, properties, variables }, result) {
  try {
    const answer = await post("/ksql", { ksql: sql, streamsProperties: properties, sessionVariables: variables });
    const entities = exact(await answer.text());
    result.show(...entities.flatMap(entityNodes));
    if (entities.length === 0) result.show(make("p", { class: "soft" }, "done"));
  } catch (error) {
    result.show(...(error.entities ?? []).flatMap(entityNodes));
    throw error;
  }
}

// ---- what was typed before, over reloads ----

function remember(text) {
  typed = [text, ...typed.filter((other) => other !== text)].slice(0, KEPT);
  back = -1;
  try { localStorage.setItem(KEY, JSON.stringify(typed)); } catch { /* A browser that keeps nothing has a history until it reloads. */ }
  listHistory();
}

function listHistory() {
  const short = (text) => text.length > 90 ? `${text.slice(0, 89)}…` : text;
  $("history").replaceChildren(make("option", { value: "" }, "History"), ...typed.map((text, at) => make("option", { value: `${at}`, title: text }, short(text.replace(/\s+/g, " ")))));
  $("history").disabled = typed.length === 0;
}

function recall(at) {
  back = Math.max(-1, Math.min(at, typed.length - 1));
  $("sql").value = typed[back] ?? "";
}

export function startPrompt(after) {
  try { typed = JSON.parse(localStorage.getItem(KEY)) ?? []; } catch { typed = []; }
  listHistory();
  $("history").addEventListener("change", () => {
    if ($("history").value !== "") recall(Number($("history").value));
    $("history").value = "";
    $("sql").focus();
  });
  $("form").addEventListener("submit", (event) => { event.preventDefault(); run(after); });
  $("stop").addEventListener("click", () => running?.abort());
  document.addEventListener("keydown", (event) => {
    const inPrompt = document.activeElement === $("sql");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && inPrompt) { event.preventDefault(); run(after); }
    if (event.altKey && inPrompt && (event.key === "ArrowUp" || event.key === "ArrowDown")) { event.preventDefault(); recall(back + (event.key === "ArrowUp" ? 1 : -1)); }
    if (event.key === "Escape") running?.abort();
  });
}
