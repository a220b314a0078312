from __future__ import annotations

import base64
import gzip
import json
import re
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import ActualRecord, Case, InputRecord, OutputRecord, Produced, Result, Status, Window
from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers.records.outcome import event_times, silence
from kestrel_qtt.drivers.records.prepare import plan_text, prepare
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.report.html import Finding, write_findings, write_html
from kestrel_qtt.report.plan_graph import mermaid_text, plan_graph
from kestrel_qtt.report.text import summarise
from tests.chromium import browser_only, open_page, start_browser

SQL = (
    "CREATE STREAM ORDERS (ID INT KEY, ITEM STRING, N INT) WITH (kafka_topic='orders', value_format='JSON');",
    (
        "CREATE TABLE COUNTS AS SELECT ITEM, COUNT(*) AS N FROM ORDERS WINDOW TUMBLING (SIZE 1 SECOND) WHERE N > 1"
        " GROUP BY ITEM;"
    ),
)
INPUTS = (
    InputRecord(topic="orders", key=1, value={"ITEM": "</script><b>x", "N": 2}, timestamp=100, line=5),
    InputRecord(topic="orders", key=2, value={"ITEM": "tea", "N": 3}, timestamp=1900, line=6),
)
WINDOW = Window(0, 1000, "time")
CASE = Case(
    id="a.yaml::counts",
    file=Path("a.yaml"),
    line=3,
    name="a - counts <i>of</i> items",
    statements=SQL,
    inputs=INPUTS,
    outputs=(
        OutputRecord(topic="COUNTS", key="a", value={"N": 1}, window=WINDOW, line=9),
        OutputRecord(topic="COUNTS", key="tea", value={"N": Decimal("2.50")}, line=10),
    ),
    rules=("L1.1",),
)
WROTE = Produced(
    {
        "COUNTS": (
            ActualRecord(key="a", value={"N": 1}, timestamp=100, window=WINDOW, cause=INPUTS[0]),
            ActualRecord(key="tea", value={"N": Decimal("2.5")}, timestamp=1900, cause=INPUTS[1]),
        )
    }
)


def explain(case: Case) -> str:
    return f"{plan_text(case)}\n\n-- CTAS_COUNTS_0, stage 0\nSELECT 1\n\n-- CTAS_COUNTS_0, stage 1\nSELECT 2"


def results() -> list[Result]:
    passed = replace(CASE, id="a.yaml::passed", name="a - passed", outputs=CASE.outputs and CASE.outputs[:1])
    only = Produced({"COUNTS": WROTE.records["COUNTS"][:1]})
    return [
        replace(judge(CASE, WROTE, 0.5), carrier="process"),
        judge(passed, only),
        Result(passed, Status.ERROR, 0.0, "b.yaml:1: it cannot be read"),
    ]


def report(folder: Path, cases: list[Result]) -> Path:
    return write_html(folder, cases, summarise(cases, 1.0), explain)


def data_of(file: Path) -> dict[str, Any]:
    found = re.search(r'type="application/octet-stream">([^<]+)<', file.read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return {**data, "cases": [{**case, **json.loads(case["details"])} for case in data["cases"]]}


def test_the_data_of_a_report(tmp_path: Path) -> None:
    file = report(tmp_path / "out", results())
    assert file == tmp_path / "out" / "index.html"
    data = data_of(file)
    failed, passed, broken = data["cases"]
    assert [case["status"] for case in data["cases"]] == ["failed", "passed", "error"]
    assert (failed["carrier"], data["summary"]["text"].split(") ")[1]) == ("process", "on process")
    (difference,) = failed["differences"]
    assert (difference["kind"], difference["index"], difference["line"]) == ("differs", 1, 10)
    assert difference["columns"] == [["value.N", "2.50 (decimal)", "2.5 (decimal)"]]
    assert passed["differences"] == []
    assert broken["outputs"] == []
    assert [record["cause"] for record in failed["outputs"]] == [0, 1]
    assert failed["outputs"][0]["window"] == [0, 1000]
    assert failed["inputs"][0]["place"] == "a.yaml:5"
    assert [(stage["stage"], stage["text"]) for stage in failed["sql"]] == [(0, "SELECT 1"), (1, "SELECT 2")]
    assert "</script><b>" not in file.read_text()
    assert re.findall(r"https?://[^\"]+", file.read_text()) == ["http://www.w3.org/2000/svg"]


def test_records_that_only_one_side_has(tmp_path: Path) -> None:
    first, second = WROTE.records["COUNTS"]
    wrote = Produced({"COUNTS": (second,), "MORE": (first,)})
    (case,) = data_of(report(tmp_path, [judge(CASE, wrote)]))["cases"]
    assert [(each["topic"], each["kind"]) for each in case["differences"]] == [
        ("COUNTS", "missing"),
        ("COUNTS", "differs"),
        ("MORE", "unexpected"),
    ]
    assert case["differences"][0]["columns"][0] == ["key", '"a" (string)', ""]


def test_the_graph_of_a_plan() -> None:
    graph = plan_graph(json.loads(plan_text(CASE)))
    labels = [node.label for node in sorted(graph.nodes, key=lambda node: node.layer)]
    assert (labels[0], labels[-1]) == ("orders", "COUNTS")
    assert "streamFilter" in labels
    layers = {node.id: node.layer for node in graph.nodes}
    assert all(layers[start] < layers[end] for start, end in graph.edges)
    assert len(graph.edges) == len(graph.nodes) - 1
    text = mermaid_text(plan_text(CASE))
    assert text.startswith("flowchart LR\n")
    assert '[("orders")]' in text
    assert "(N &gt; 1)" in text


def test_run_writes_a_report(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = {"name": "a", "statements": ["COPY"], "inputs": [{"topic": "IN", "value": 1}], "outputs": []}
    Path("x.json").write_text(json.dumps({"tests": [case]}))
    assert main(["run", "x.json", "--html", "out"], lambda: fake) == ExitCode.FAILURES
    assert "report: out/index.html" in capsys.readouterr().out
    (found,) = data_of(Path("out/index.html"))["cases"]
    assert found["differences"][0]["kind"] == "unexpected"
    assert main(["explain", "x.json", "--mermaid"], lambda: fake) == ExitCode.OK
    assert "flowchart LR" in capsys.readouterr().out


def test_three_thousand_cases_are_small(tmp_path: Path) -> None:
    failed, passed, _ = results()
    text = "\n".join(f"SELECT {n} AS `column {n}`, struct(*) FROM level_{n}" for n in range(150))
    many = [replace(passed, case=replace(passed.case, id=f"a.yaml::{n}", name=f"case {n}")) for n in range(3000)]
    plan = plan_text(CASE)
    file = write_html(
        tmp_path, [failed, *many], summarise(many, 1.0), lambda case: f"{plan}\n\n-- q, stage 0\n-- {case.id}\n{text}"
    )
    assert file.stat().st_size < 15_000_000


def test_half_of_a_character_is_shown(tmp_path: Path) -> None:
    wrote = Produced({"COUNTS": (replace(WROTE.records["COUNTS"][0], value={"N": "\ud83d"}),)})
    (found,) = data_of(report(tmp_path, [judge(CASE, wrote, 0.5)]))["cases"]
    assert "\\ud83d" in json.dumps(found["differences"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from start_browser()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with open_page(browser) as page:
        yield page


TIMED = replace(
    CASE,
    id="a.yaml::timed",
    statements=(
        SQL[0].replace("N INT", "N BIGINT").replace("'JSON')", "'JSON', timestamp='N')"),
        SQL[1]
        .replace("SIZE 1 SECOND", "SIZE 1 SECOND, GRACE PERIOD 0 SECONDS")
        .replace("WHERE N > 1 ", "")
        .replace("ITEM;", f"ITEM HAVING ITEM <> '{'W' * 90}';"),
    ),
    inputs=tuple(
        InputRecord(topic="orders", key=1, value={"ITEM": "tea", "N": n}, timestamp=5, headers=(("h", b"x"),), line=5)
        for n in (360000, 720000, 1000)
    ),
    outputs=(
        OutputRecord(topic="COUNTS", key="tea", value={"N": 2}, window=Window(360000, 361000, "time"), line=9),
        OutputRecord(topic="COUNTS", key="milk", value={"N": 1}, window=Window(720000, 721000, "time"), line=10),
    ),
)


def timed() -> Result:
    """A case whose source takes its timestamps from a column: planned, with made-up outputs."""
    run = prepare(TIMED)
    assert run.outcome is None
    written = ActualRecord(
        key="tea", value={"N": 1}, timestamp=360000, window=Window(360000, 361000, "time"), cause=TIMED.inputs[0],
        partition=3,
    )  # fmt: skip
    made = Produced({"COUNTS": (written,)}, silence=silence(run), event_times=event_times(run))
    return judge(TIMED, made)


def test_a_report_says_what_the_terminal_says(tmp_path: Path) -> None:
    result = timed()
    assert "note: 1 window had expired when an input for it came (stream time 720000, grace 0 ms)" in result.reason
    (case,) = data_of(report(tmp_path, [result]))["cases"]
    assert case["reason"] == "\n".join(
        line for line in result.reason.splitlines() if line.startswith(("topic COUNTS: ", "note: "))
    ), "what the differences say stands there only"
    differs, missing = case["differences"]
    assert differs["cause"] == "caused by the input of topic orders in a.yaml:5"
    assert differs["cause"] in result.reason
    assert (differs["row"], missing["row"]) == (0, None)
    window = '{"start": 720000, "end": 721000, "type": "time"} (object)'
    assert [name for name, *_ in missing["columns"]] == ["key", "value", "window"]
    assert missing["columns"][-1] == ["window", window, ""]
    assert window in result.reason
    assert [record["eventTime"] for record in case["inputs"]] == [360000, 720000, 1000]
    assert case["inputs"][0]["headers"] == [["h", '"eA=="']]
    assert case["outputs"][0]["partition"] == 3
    assert "TUMBLING 1 SECONDS 0 SECONDS" in [node["detail"] for node in case["graph"]["nodes"]]


OVERLAPPING = """texts => texts.flatMap((one, at) => texts.slice(at + 1).map((other) => {
  const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return across > 2 && down > 4 ? `${one.textContent} and ${other.textContent}` : "";
}).filter(Boolean))"""


OVERHANGING = """boxes => boxes.flatMap((box) => [...box.querySelectorAll("text")]
  .filter((text) => text.getBoundingClientRect().right > box.querySelector("rect").getBoundingClientRect().right)
  .map((text) => text.textContent))"""


@browser_only
def test_a_failure_is_shown_at_both_sizes(tmp_path: Path, page: Any) -> None:
    page.goto(report(tmp_path, [timed()]).as_uri())
    for width, height in ((1280, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert "caused by the input" in page.inner_text("table.differences")
        assert "note: 1 window had expired" in page.inner_text("pre.reason")
        assert "caused by the input" not in page.inner_text("pre.reason")
        assert page.locator(".wide").evaluate_all("all => all.every((each) => each.scrollWidth <= each.clientWidth)")
        assert page.locator("table.outputs tbody tr").all_inner_texts()[0].count("differs") == 1
        assert page.locator("table.outputs tr.missing td", has_text="milk").count() == 1
        assert page.locator("table.inputs tr.cause").count() == 1
        assert page.locator("svg circle.marked:not(.missing)").count() == 1
        assert page.locator(".timeline circle.missing title", has_text="milk").count() == 1
        times = [page.locator("circle.in").nth(n).get_attribute("data-time") for n in range(3)]
        assert times == ["360000", "720000", "1000"]
        assert page.locator(".timeline text").evaluate_all(OVERLAPPING) == []
        assert "1970-01-01 00:06:00.000" in page.inner_text("table.inputs")
        heads = page.locator("table.inputs thead th").all_text_contents()
        assert heads == ["in: topic", "key", "value", "timestamp", "event time", "headers"]
        is_narrow = "node => node.getBoundingClientRect().right <= innerWidth"
        assert page.locator(".graph svg").evaluate(is_narrow)
        assert page.locator(".graph rect").evaluate_all(
            "all => all.every(node => node.getBoundingClientRect().right <= innerWidth)"
        )
        assert page.locator(".graph g").evaluate_all(OVERHANGING) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        letters = "node => node.getBoundingClientRect().width / parseFloat(getComputedStyle(node).fontSize)"
        assert page.locator("table.inputs td.value").first.evaluate(letters) > 12, "no letter by letter"


@browser_only
def test_the_report_in_a_browser(tmp_path: Path, page: Any) -> None:
    page.goto(report(tmp_path, results()).as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#list a").count() == 1, "failures first"
    assert "1 passed, 1 failed, 1 error in" in page.inner_text("#summary")
    assert "counts <i>of</i> items" in page.inner_text("article h2")
    assert page.locator("table.differences td.expected").inner_text() == "2.50 (decimal)"
    assert page.locator("table.differences td.actual").inner_text() == "2.5 (decimal)"
    assert page.locator("article b").count() == 0, "text of cases is no HTML"
    assert page.locator(".timeline circle").count() == 4
    assert page.locator(".timeline rect.window").count() == 1
    assert page.locator(".graph rect.topic").count() == 2
    assert page.locator("pre.sql .k").first.inner_text() == "CREATE"
    assert not page.locator("details").get_attribute("open")
    page.hover("table.outputs tr[data-cause='1']")
    assert page.locator("table.inputs tr.hit").count() == 1
    page.keyboard.press("f")
    assert page.locator("#list a").count() == 3
    page.keyboard.press("j")
    assert "passed" in page.inner_text("article h2")
    page.keyboard.press("j")
    assert "it cannot be read" in page.inner_text("article")
    page.keyboard.press("k")
    page.keyboard.press("/")
    page.keyboard.type("<i>OF")
    assert page.locator("#list a").count() == 1
    page.keyboard.press("Escape")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != back
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == back


@browser_only
def test_three_thousand_cases_open_at_once(tmp_path: Path, page: Any) -> None:
    _, passed, _ = results()
    many = [replace(passed, case=replace(passed.case, id=f"a.yaml::{n}", name=f"case {n}")) for n in range(3000)]
    file = write_html(tmp_path, many, summarise(many, 1.0))
    started = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#list a").count() == 3000
    # Two seconds on an idle machine; CI has several at work.
    assert time.perf_counter() - started < 20


@browser_only
def test_the_page_of_findings_in_a_browser(tmp_path: Path, page: Any) -> None:
    found = [
        Finding("app.sql:2:9", "survives 1 case", False, "- WHERE (A < 1)\n+ WHERE (A <= 1)"),
        Finding("app.sql:3:9", "killed by FINDINGS <i>x</i>", True, "- A\n+ B"),
    ]
    file = write_findings(tmp_path / "report" / "mutation.html", "Mutants", "survivors", "2 mutants", found)
    page.goto(file.as_uri())
    assert page.inner_text("#summary") == "2 mutants"
    assert page.locator("section:visible h2").all_inner_texts() == ["app.sql:2:9"], "survivors only"
    assert page.locator("section:visible ins").inner_text() == "+ WHERE (A <= 1)"
    page.keyboard.press("f")
    assert page.locator("section:visible").count() == 2
    assert "FINDINGS <i>x</i>" in page.inner_text("section.passed p")
    page.keyboard.press("/")
    page.keyboard.type("killed")
    assert page.locator("section:visible h2").all_inner_texts() == ["app.sql:3:9"]
