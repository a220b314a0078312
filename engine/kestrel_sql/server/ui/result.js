// The result of one request: rows as they come, or the tables of an answer; rows can be taken home as CSV or JSON.
import { cellNode, isNumeric, itemsOf, toCsv, toJson } from "./cells.js";
import { count, make, plural } from "./dom.js";

const MOST_SHOWN = 1000, MOST_KEPT = 100_000;
// More columns than these become a card for each row on a phone.
const BESIDE = 3;

export class Result {
  constructor(title) {
    this.names = [];
    this.kept = [];
    this.total = 0;
    this.status = make("output", { class: "soft" });
    this.downloads = make("span", { class: "downloads", hidden: true },
      this.button("CSV", "text/csv", () => toCsv(this.names, this.kept)),
      this.button("JSON", "application/json", () => toJson(this.names, this.kept)));
    this.body = make("div", { class: "body" });
    this.node = make("section", { class: "result" }, make("header", {}, make("code", { title }, title), this.status, this.downloads), this.body);
  }

  button(kind, type, text) {
    return make("button", { class: "plain", type: "button", title: `Download the rows as ${kind}`, onclick: () => save(`rows.${kind.toLowerCase()}`, type, text()) }, kind);
  }

  show(...nodes) {
    this.body.replaceChildren(...nodes);
  }

  fail(message) {
    this.body.append(make("pre", { class: "bad", role: "alert" }, message));
  }

  columns(names, types) {
    this.names = names;
    this.numeric = types.map(isNumeric);
    this.rows = make("tbody");
    this.grid = make("div", { class: "grid", tabindex: "0", role: "region", "aria-label": "Rows" }, make("table", { class: names.length > BESIDE ? "cards" : null },
      make("thead", {}, make("tr", {}, ...names.map((name, at) => make("th", { scope: "col", class: this.numeric[at] ? "number" : null, title: types[at] }, name)))), this.rows));
    this.show(this.grid);
    this.downloads.hidden = false;
  }

  // Rows as lists of cells (cells.js). The last ones are shown; whoever has scrolled up is left there.
  add(rows) {
    if (rows.length === 0) return;
    this.total += rows.length;
    for (const row of rows) this.kept.push(row);
    if (this.kept.length > 2 * MOST_KEPT) this.kept = this.kept.slice(-MOST_KEPT);
    const follows = this.grid.scrollHeight - this.grid.scrollTop - this.grid.clientHeight < 4;
    this.rows.append(...rows.slice(-MOST_SHOWN).map((row) => make("tr", {}, ...row.map((cell, at) => cellNode(cell, this.numeric[at], this.names[at])))));
    while (this.rows.rows.length > MOST_SHOWN) this.rows.rows[0].remove();
    if (follows) this.grid.scrollTop = this.grid.scrollHeight;
    this.say(" so far …");
  }

  say(more) {
    const shown = this.total > MOST_SHOWN ? `, the last ${count(MOST_SHOWN)} shown` : "";
    this.status.textContent = `${plural(this.total, "row")}${more}${shown}`;
  }

  end(how = "") {
    if (!this.grid) this.status.textContent = how;
    else {
      this.say(how && `, ${how}`);
      this.grid.scrollTop = 0;
    }
  }
}

// Reads the lines of an answer of /query-stream into a result.
export async function readRows(answer, result) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    take(lines.filter((line) => line.trim()), result);
    if (done) return;
  }
}

function take(lines, result) {
  const rows = [];
  for (const line of lines) {
    if (line.startsWith("[")) rows.push(itemsOf(line));
    else if (!line.startsWith("{")) {
      if (!result.grid) result.columns(["Record"], ["STRING"]);
      rows.push([JSON.stringify(line)]);
    } else {
      const said = JSON.parse(line);
      if (said.columnNames) result.columns(said.columnNames, said.columnTypes);
      else if (said.message) {
        result.add(rows);
        throw new Error(said.message);
      }
    }
  }
  result.add(rows);
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
