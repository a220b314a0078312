// What the server answers to SHOW, DESCRIBE and EXPLAIN, as tables. It knows few entities: whatever has members becomes
// a table of them, a list of objects a table with their members as columns.
import { Numeral } from "./cells.js";
import { make } from "./dom.js";

const UNTOLD = new Set(["@type", "statementText", "warnings"]);
const LONG = new Set(["statement", "statementText"]), FOLDED = new Set(["executionPlan", "topology"]);

// The statement heads its answer where there are several.
export function entityNodes(entity, _, all) {
  const head = all.length > 1 ? [make("code", { class: "soft statement", title: entity.statementText }, (entity.statementText ?? "").replace(/\s+/g, " "))] : [];
  return [...head, ...answer(entity)];
}

function answer(entity) {
  if (entity.commandStatus) return [make("p", {}, entity.commandStatus.message)];
  const told = Object.entries(entity).filter(([name, value]) => !UNTOLD.has(name) && !isEmpty(value));
  const warnings = (entity.warnings ?? []).map((warning) => make("p", { class: "warn" }, warning.message ?? String(warning)));
  if (told.length === 0) return [...warnings, make("p", { class: "soft" }, nothing(entity))];
  // The one object of an answer needs no name.
  const only = told.length === 1 && isObject(told[0][1]) ? told[0][1] : null;
  return [...warnings, ...tables(only ?? Object.fromEntries(told))];
}

function nothing(entity) {
  const list = Object.keys(entity).find((name) => Array.isArray(entity[name]) && name !== "warnings");
  return list ? `no ${list}` : "done";
}

// The scalars of an object as one table, then a table for each list of objects and each object in it.
export function tables(object, title = "") {
  const told = Object.entries(object).filter(([, value]) => !isEmpty(value));
  const isFlat = (value) => !isObject(value) && !isTable(value);
  const flat = told.filter(([name, value]) => isFlat(value) && !LONG.has(name) && !FOLDED.has(name));
  const deep = told.filter(([, value]) => !isFlat(value));
  const text = (names) => told.filter(([name, value]) => isFlat(value) && names.has(name)).map(([name, value]) => [words(name), make("pre", {}, value)]);
  const heading = (name) => told.length > 1 || title ? make("h4", {}, words(name)) : null;
  return [
    flat.length ? table(["", ""], flat.map(([name, value]) => [words(name), value]), "pairs") : null,
    ...deep.flatMap(([name, value]) => [heading(name), ...inside(name, value)]),
    ...text(LONG).flatMap(([name, shown]) => [make("h4", {}, name), shown]),
    ...text(FOLDED).map(([name, shown]) => make("details", {}, make("summary", {}, name), shown)),
  ].filter(Boolean);
}

// A list is one table, unless its members have several lists of their own.
function inside(name, value) {
  if (isSchemas(value)) return [listed(named(value))];
  if (!isTable(value)) return tables(value, name);
  const isDeep = value.some((row) => Object.values(row).filter(isTable).length > 1);
  return isDeep ? value.flatMap((row) => [make("h4", {}, row.name ?? row.id ?? ""), ...tables(row, name)]) : [listed(unnested(value).map(withLag))];
}

// Rows that have lists of objects, as one row for each of these.
function unnested(rows) {
  const name = rows.flatMap((row) => Object.entries(row)).find(([, value]) => isTable(value))?.[0];
  if (name === undefined) return rows;
  return unnested(rows.flatMap(({ [name]: inner, ...outer }) => isTable(inner) ? inner.map((each) => ({ ...outer, ...each })) : [outer]));
}

function withLag(row) {
  const end = row.logEndOffset ?? row.endOffset, read = row.consumerOffset ?? row.committedOffset;
  return end === undefined || read === undefined ? row : { ...row, lag: Math.max(0, end - Math.max(0, read)) };
}

function listed(rows) {
  if (rows.every((row) => row.schema)) {
    return table(["Column", "Type", ""], rows.map((row) => [row.name, typeOf(row.schema), (row.type ?? "").toLowerCase()]));
  }
  const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((head) => rows.some((row) => !isEmpty(row[head])) && head !== "@type");
  // Statements come last, and leave room for the others until they are opened.
  const isLong = (head) => rows.some((row) => `${row[head]}`.includes("\n"));
  const ordered = [...heads.filter((head) => !isLong(head)), ...heads.filter(isLong)];
  return table(ordered.map(words), rows.map((row) => ordered.map((head) => isLong(head) ? folded(`${row[head]}`) : head === "timestamp" && row[head] > 0 ? new Date(Number(row[head])).toLocaleString() : row[head])));
}

function folded(text) {
  const line = text.replace(/\s+/g, " ");
  return make("details", {}, make("summary", {}, line.length > 32 ? `${line.slice(0, 31)}…` : line), make("pre", {}, text));
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Numeral);
const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every(isObject);
const isEmpty = (value) => value === null || value === undefined || value === "" || ((isObject(value) || Array.isArray(value)) && Object.keys(value).length === 0);
const isSchemas = (value) => isObject(value) && Object.values(value).every((each) => isObject(each) && each.type && "memberSchema" in each);
const named = (schemas) => Object.entries(schemas).map(([name, schema]) => ({ name, schema }));
// "keyFormat" is "Key format"; names of properties, columns and hosts stay.
const words = (name) => /^[a-z]+([A-Z][a-z]*)*$/.test(name) ? name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace(/^./, (letter) => letter.toUpperCase()) : name;

export function typeOf(schema) {
  if (schema.fields) return `STRUCT<${schema.fields.map((field) => `${field.name} ${typeOf(field.schema)}`).join(", ")}>`;
  if (schema.memberSchema) return schema.type === "MAP" ? `MAP<STRING, ${typeOf(schema.memberSchema)}>` : `ARRAY<${typeOf(schema.memberSchema)}>`;
  return schema.parameters ? `DECIMAL(${schema.parameters.precision}, ${schema.parameters.scale})` : schema.type;
}

export function table(heads, rows, kind = "") {
  const numeric = heads.map((_, at) => rows.length > 0 && rows.every((row) => row[at] instanceof Numeral));
  const head = heads.some(Boolean) ? make("thead", {}, make("tr", {}, ...heads.map((name, at) => make("th", { scope: "col", class: numeric[at] ? "number" : null }, name)))) : null;
  return make("div", { class: "grid" }, make("table", { class: kind || (heads.length > 3 ? "cards" : null) }, head,
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value, at) => make("td", { class: numeric[at] ? "number" : null, "data-head": heads[at] }, value instanceof Node ? value : text(value))))))));
}

function text(value) {
  if (isEmpty(value)) return "";
  if (Array.isArray(value)) return value.map(text).join(", ");
  return isObject(value) ? Object.entries(value).map(([name, member]) => `${name}: ${text(member)}`).join(", ") : String(value);
}
