// Cells of rows and members of entities as the server wrote them. A cell is the JSON text of its value: JavaScript has no number for
// 9007199254740993 and 27.00, and orders the members of {"b": 1, "10": 2} anew.
import { make } from "./dom.js";

const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},]/g;

// The texts of the items of a JSON array.
export function itemsOf(array) {
  const items = [];
  let depth = 0, start = 0;
  const end = (at) => {
    const item = array.slice(start, at).trim();
    if (item) items.push(item);
    start = at + 1;
  };
  for (const { 0: token, index } of array.matchAll(TOKENS)) {
    if (token === "[" || token === "{") { if (depth++ === 0) start = index + 1; }
    else if (token === "]" || token === "}") { if (--depth === 0) end(index); }
    else if (token === "," && depth === 1) end(index);
  }
  return items;
}

// A number of an answer, as it was written.
export class Numeral {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const SCALARS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

// The value of a JSON text whose numbers are Numerals. While it is read, texts and names begin with s, numbers with n.
export function exact(json) {
  const marked = json.replace(SCALARS, (token) => token[0] === '"' ? `"s${token.slice(1)}` : `"n${token}"`);
  return JSON.parse(marked, (_, value) => {
    if (typeof value === "string") return value[0] === "n" ? new Numeral(value.slice(1)) : value.slice(1);
    if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Numeral) return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name.slice(1), member]));
  });
}

// The text to show: a string without its quotes, everything else as it is.
export const shown = (cell) => cell[0] === '"' ? JSON.parse(cell) : cell === "null" ? "NULL" : cell;

export const isNumeric = (type) => /^(INTEGER|BIGINT|DOUBLE|DECIMAL)\b/.test(type);

export function cellNode(cell, numeric, head) {
  const kind = cell === "null" ? "null" : numeric ? "number" : null;
  return make("td", { class: numeric && kind === "null" ? "null number" : kind, "data-head": head }, shown(cell));
}

// RFC 4180; a NULL is an empty field, an empty string a quoted one.
export function toCsv(names, rows) {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const field = (cell) => cell === "null" ? "" : /^[-\d]/.test(cell) ? cell : quoted(shown(cell));
  return [names.map(quoted), ...rows.map((row) => row.map(field))].map((fields) => `${fields.join(",")}\r\n`).join("");
}

// An array of objects, with every number as the server wrote it.
export function toJson(names, rows) {
  const keys = names.map((name) => JSON.stringify(name));
  const objects = rows.map((row) => `  {${row.map((cell, at) => `${keys[at]}: ${cell}`).join(", ")}}`);
  return `[\n${objects.join(",\n")}\n]\n`;
}
