"""Tests the modules of the page that need no browser, in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js: apt-get install nodejs")

SCRIPT = """
import { exact, itemsOf, shown, toCsv, toJson } from "./cells.js";
import { requestsOf } from "./statements.js";
const { rows, texts } = JSON.parse(process.argv[2]);
const cells = rows.map(itemsOf);
const plain = (value) => Array.isArray(value) ? value.map(plain) : value?.text ? `number ${value.text}`
  : value !== null && typeof value === "object" ? Object.entries(value).map(([name, member]) => [name, plain(member)]) : value;
console.log(JSON.stringify({
  exact: rows.map(exact).map(plain), shown: cells.map((row) => row.map(shown)), csv: toCsv(["A", 'b"c'], cells.slice(0, 2)), json: toJson(["A", 'b"c'], cells.slice(0, 2)),
  requests: texts.map((text) => requestsOf(text, { p: "1" })),
}));
"""


def answers(folder: Path, rows: list[str], texts: list[str]) -> Any:
    with as_file(files("kestrel_sql.server.ui")) as modules:
        shutil.copytree(modules, folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(SCRIPT)
    given = json.dumps({"rows": rows, "texts": texts})
    done = subprocess.run(["node", "script.js", given], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_cells_keep_their_text_and_the_prompt_is_cut_into_requests(tmp_path: Path) -> None:
    rows = [
        '[9007199254740993,"a,\\"]b"]',
        "[27.00, null]",
        '[[1.0,{"b":[1.10],"10":-0}],{"9":3.0,"1":"[,"},true,"NULL",1.0E10,""]',
        "[]",
    ]
    texts = [
        "-- SELECT;\nSET 'p'='it''s'; DEFINE v = 'x;y';\nSHOW STREAMS;\n/* ; */ select ';' from `a;b`\n emit changes;PRINT t;",
        " ;; -- nothing\n",
        "UNSET 'p';\nselect 1 from s",
    ]
    found = answers(tmp_path / "ui", rows, texts)
    assert found["exact"] == [
        ["number 9007199254740993", 'a,"]b'],
        ["number 27.00", None],
        [
            ["number 1.0", [["10", "number -0"], ["b", ["number 1.10"]]]],
            [["1", "[,"], ["9", "number 3.0"]],
            True,
            "NULL",
            "number 1.0E10",
            "",
        ],
        [],
    ]
    assert found["shown"] == [
        ["9007199254740993", 'a,"]b'],
        ["27.00", "NULL"],
        ['[1.0,{"b":[1.10],"10":-0}]', '{"9":3.0,"1":"[,"}', "true", "NULL", "1.0E10", ""],
        [],
    ]
    assert found["csv"] == '"A","b""c"\r\n9007199254740993,"a,""]b"\r\n27.00,\r\n'
    assert '"A": 9007199254740993, "b\\"c": "a,\\"]b"' in found["json"]
    assert json.loads(found["json"])[1] == {"A": 27.0, 'b"c': None}
    several, nothing, unset = found["requests"]
    assert nothing == []
    assert [(each["isQuery"], each["line"], each["title"]) for each in several] == [
        (False, 2, ["SET 'p'='it''s';", "DEFINE v = 'x;y';", "SHOW STREAMS;"]),
        (True, 4, ["select ';' from `a;b`\n emit changes;"]),
        (True, 5, ["PRINT t;"]),
    ]
    assert several[0]["sql"] == "\nSET 'p'='it''s';DEFINE v = 'x;y';\nSHOW STREAMS;", "lines are those of the prompt"
    assert several[1]["sql"].startswith("\n\n\nselect")
    assert (several[0]["properties"], several[1]["properties"]) == ({"p": "1"}, {"p": "it's"})
    assert several[1]["variables"] == {"v": "x;y"}
    assert [(each["sql"], each["properties"]) for each in unset] == [
        ("UNSET 'p';", {"p": "1"}),
        ("\nselect 1 from s;", {}),
    ]
