// The text of the prompt, cut into what is sent one after another.
const MARKS = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|`(?:[^`]|``)*`|"(?:[^"]|"")*"|;/g;
const LEADING = /^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/;
const SETTING = /^set\s+'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'/i;
const VARIABLE = /^(?:define\s+(\w+)\s*=\s*'((?:[^']|'')*)'|undefine\s+(\w+))/i;

// The statements of a text, each with the line where it begins and without its leading comments in `bare`.
export function statementsOf(text) {
  const found = [];
  let start = 0;
  const end = (at) => {
    const whole = text.slice(start, at), bare = whole.replace(LEADING, "").trim();
    const from = start + whole.length - whole.replace(LEADING, "").length;
    if (bare && bare !== ";") found.push({ bare, line: text.slice(0, from).split("\n").length });
    start = at;
  };
  for (const { 0: mark, index } of text.matchAll(MARKS)) if (mark === ";") end(index + 1);
  end(text.length);
  return found;
}

// What is sent: each query by itself, and the statements between two queries together, so that all are checked before
// the first runs. Blank lines in front keep the line numbers of errors. What SET and DEFINE say holds for what follows.
export function requestsOf(text, properties) {
  const requests = [], settings = { ...properties }, variables = {};
  let together = null;
  for (const { bare, line } of statementsOf(text)) {
    const isQuery = /^(select|print)\b/i.test(bare);
    if (isQuery || !together) {
      const request = { isQuery, sql: "\n".repeat(line - 1), line, title: [], properties: { ...settings }, variables: { ...variables } };
      requests.push(request);
      together = isQuery ? null : request;
    }
    const request = requests[requests.length - 1];
    request.sql += "\n".repeat(Math.max(0, line - request.sql.split("\n").length)) + (bare.endsWith(";") ? bare : `${bare};`);
    request.title.push(bare);
    remember(bare, settings, variables);
  }
  return requests;
}

function remember(bare, settings, variables) {
  const plain = (text) => text.replaceAll("''", "'");
  const setting = SETTING.exec(bare), variable = VARIABLE.exec(bare), unset = /^unset\s+'((?:[^']|'')*)'/i.exec(bare);
  if (setting) settings[plain(setting[1])] = plain(setting[2]);
  if (unset) delete settings[plain(unset[1])];
  if (variable?.[1]) variables[variable[1]] = plain(variable[2]);
  if (variable?.[3]) delete variables[variable[3]];
}
