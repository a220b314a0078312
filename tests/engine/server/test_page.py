"""The page in a real browser: the prompt, the plan, dark and light, by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from kestrel_sql.server.open import Running
from tests.chromium import browser_only, open_page, start_browser
from tests.engine.server.servers import http, ksql

expect.set_options(timeout=30_000)  # the page asks every 2 s, and a busy machine answers late

pytestmark = [
    pytest.mark.spark,
    browser_only,
]


WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
SIZES = (WIDE, PHONE)

ROWS = """
    CREATE STREAM exact (id BIGINT KEY, text STRING, price DECIMAL(12, 2), rate DOUBLE, many ARRAY<DECIMAL(4, 2)>,
      deep STRUCT<big BIGINT, half DOUBLE>, named MAP<STRING, BIGINT>)
      WITH (KAFKA_TOPIC='exact', VALUE_FORMAT='JSON', PARTITIONS=1);
    INSERT INTO exact VALUES (9007199254740993, 'NULL', 1234567890.10, 3.0, ARRAY[27.00],
      STRUCT(big := 9007199254740993, half := 2.0), MAP('k' := 9007199254740993));
    INSERT INTO exact (id, price) VALUES (2, 27.00);
"""


SEEN: dict[str, Any] = {
    "state": "RUNNING", "service": "x", "push_clients": 0, "pull_queries": 0, "rows_inserted": 0,
    "history": {}, "sources": [], "queries": [], "errors": [], "bad_records": 0,
}  # fmt: skip


def source(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "STREAM", "topic": name, "keyFormat": "KAFKA", "valueFormat": "JSON",
            "windowed": False, "columns": []}  # fmt: skip


def query(name: str, sources: list[str], sink: str | None) -> dict[str, Any]:
    return {"id": name, "state": "RUNNING", "statement": "SELECT\n1;", "line": None, "sources": sources, "sink": sink,
            "rows_in": 0, "rows_out": 0, "lag": 0, "lags": {}, "bad_records": 0, "late_records": 0,
            "error": ""}  # fmt: skip


@pytest.fixture(scope="module")
def url(server: Running) -> str:
    text = """
        CREATE STREAM orders (id INT KEY, item STRING, price DOUBLE)
          WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE TABLE totals AS SELECT item, COUNT(*) AS n FROM orders WHERE price > 1 GROUP BY item;
    """
    for each in (text, ROWS):
        assert ksql(server.url, each, streamsProperties={"auto.offset.reset": "earliest"}).status_code == 200
    return server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from start_browser()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with open_page(browser, ignored="status of 400") as page:
        page.set_viewport_size(WIDE)
        page.goto(f"{url}/")
        assert page.url == f"{url}/ui"
        yield page


def run(page: Page, text: str) -> None:
    page.fill("#sql", text)
    page.keyboard.press("Control+Enter")


def is_in_view(page: Page, selector: str) -> bool:
    found = page.locator(selector).first.evaluate(
        "node => { const { top, left } = node.getBoundingClientRect(); return top >= 0 && top < innerHeight && left >= 0"
        " && left < innerWidth; }"
    )
    return bool(found)


def width(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


def test_statements_of_the_prompt_change_what_the_page_shows(page: Page) -> None:
    run(
        page,
        "CREATE STREAM made (id INT KEY, tags ARRAY<STRING>) WITH (KAFKA_TOPIC='made', VALUE_FORMAT='JSON',"
        " PARTITIONS=1);",
    )
    expect(page.locator("#result")).to_contain_text("Stream created", timeout=60_000)
    page.locator("#application .node.stream", has_text="MADE").click()
    expect(page.locator("#sources details[open]")).to_contain_text("ARRAY<STRING>")
    expect(page.locator("#application .node.topic", has_text="made")).to_be_visible()
    page.reload()
    page.focus("#sql")
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator("#sql")).to_have_value(re.compile("CREATE STREAM made"))
    expect(page.locator("#history option")).to_have_count(2)


def test_numbers_are_shown_as_they_are(page: Page) -> None:
    run(page, "/* a */ -- b\nSELECT * FROM exact EMIT CHANGES LIMIT 2;")
    expect(page.locator("#result output")).to_have_text("2 rows", timeout=90_000)
    for size in SIZES:
        page.set_viewport_size(size)
        full, nulls = page.locator("#result tbody tr").all()
        assert full.locator("td").all_inner_texts() == [
            "9007199254740993", "NULL", "1234567890.10", "3.0", "[27.00]", '{"BIG":9007199254740993,"HALF":2.0}',
            '{"k":9007199254740993}',
        ]  # fmt: skip
        assert nulls.locator("td").all_inner_texts()[:3] == ["2", "NULL", "27.00"]
        assert full.locator("td.null").count() == 0, "the text 'NULL' is no NULL"
        assert nulls.locator("td.null").count() == 5
        align = full.locator("td").first.evaluate("node => getComputedStyle(node).textAlign")
        assert (align == "right") == (size is WIDE), "on a phone each row is a card"
        assert page.locator("#result .grid").evaluate("node => node.scrollWidth <= node.clientWidth")
        assert width(page) <= size["width"]
    for kind, found in (("CSV", '9007199254740993,"NULL",1234567890.10,3.0,'), ("JSON", '"PRICE": 1234567890.10')):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        assert found in download.value.path().read_text()


def test_the_prompt_runs_statements_and_queries_one_after_another(page: Page) -> None:
    text = """SHOW PROPERTIES; -- all
        DESCRIBE totals EXTENDED;
        SELECT * FROM totals;
        SELECT nothing FROM orders;
        SHOW TABLES;"""
    run(page, text)
    expect(page.locator("#outcome")).to_have_text("failed; 1 statement not run", timeout=90_000)
    assert is_in_view(page, "#result .result")
    shown, pulled, refused = page.locator("#result .result").all()
    expect(shown.locator("td", has_text="ksql.service.id").first).to_be_attached()
    expect(shown).to_contain_text("Partitions")
    assert shown.locator("pre").locator("visible=true").count() == 1, "the statement; everything else is in tables"
    assert shown.locator("td summary").inner_text() == "CREATE TABLE TOTALS WITH (CLEAN\u2026"
    expect(pulled.locator("thead")).to_contain_text("ITEM")
    expect(refused.get_by_role("alert")).to_contain_text("Line: 4, Col: 8")
    grid = shown.locator(".grid", has_text="ksql.service.id").last
    grid.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    top, row, head = (
        node.evaluate("node => node.getBoundingClientRect().top")
        for node in (grid, grid.locator("tr").nth(1), grid.locator("th").first)
    )
    assert row < top - 10, "it is scrolled"
    assert abs(head - top) < 2, "its header is not"
    page.set_viewport_size(PHONE)
    assert width(page) <= PHONE["width"]
    assert shown.locator(".cards td").count() > 0
    too_wide = (
        "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"
    )
    assert shown.locator(".cards td").evaluate_all(too_wide) == []
    run(page, "EXPLAIN CTAS_TOTALS_0;")
    expect(page.locator("#result .result table").first).to_contain_text("CTAS_TOTALS_0", timeout=60_000)
    assert width(page) <= PHONE["width"]


def test_rows_of_a_push_query_come_while_it_runs_and_escape_stops_it(page: Page, url: str, server: Running) -> None:
    run(page, "-- what comes\nselect id, item from orders emit changes;")
    expect(page.locator("#result thead")).to_contain_text("ITEM", timeout=60_000)
    ksql(url, "INSERT INTO orders (id, item) VALUES (1, '<b>tea</b>');")
    expect(page.locator("#result tbody")).to_contain_text("<b>tea</b>", timeout=90_000)
    expect(page.locator("#result output")).to_contain_text("1 row so far")
    page.keyboard.press("Escape")
    expect(page.locator("#outcome")).to_have_text("stopped")
    page.wait_for_timeout(1000)
    assert server.service.figures().push_clients == 0


@pytest.mark.parametrize("size", SIZES, ids=["1280", "390"])
def test_the_application_is_a_graph_and_a_query_shows_its_plan(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    names = page.locator("#application .node span")
    expect(names.filter(has_text="CTAS_TOTALS_0")).to_be_visible()
    assert {"orders", "ORDERS", "CTAS_TOTALS_0", "TOTALS"} <= {*names.all_inner_texts()}
    assert page.locator("#application .label", has_text="/s").count() == 2
    assert is_in_view(page, "#application .node")
    cells = page.locator("#queries tbody tr").first.locator("td")
    one_line = cells.last.evaluate("node => node.getBoundingClientRect().height")
    assert one_line < 60
    assert (cells.nth(3).evaluate("node => getComputedStyle(node, '::before').content") != "none") == (size is PHONE)
    query = page.locator("#queries").get_by_role("button", name="CTAS_TOTALS_0")
    query.focus()
    page.keyboard.press("Enter")
    node = page.locator("#graph .node", has_text="WHERE (PRICE > 1)")
    expect(node).to_be_visible()
    assert is_in_view(page, "#graph")
    node.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#step")).to_contain_text("`PRICE` DOUBLE")
    assert page.locator("#graph .node").count() >= 4
    assert page.locator("#graph .edge").count() == page.locator("#graph .node").count() - 1
    expect(page.locator("#queries .one-line")).to_have_text(
        re.compile("^CREATE TABLE TOTALS AS SELECT ORDERS.ITEM ITEM,")
    )
    expect(page.locator("#queries .detail")).to_contain_text("Line 4 of the text that was sent")
    expect(page.locator("#queries pre")).to_contain_text("CREATE TABLE TOTALS WITH (CLEANUP_POLICY='compact',")
    page.keyboard.press("Escape")
    query.click()
    expect(page.locator("#graph")).to_have_count(0)
    assert width(page) <= size["width"]


@pytest.mark.parametrize("size", SIZES, ids=["1280", "390"])
def test_a_wide_application_can_be_read_without_scrolling_aside(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    names = [f"REVENUE_OF_COUNTRY_{n}" for n in range(6)]
    sources = [source(name) for name in ("ORDERS", "CUSTOMERS", "JOINED", *names)]
    queries = [query("JOIN_0", ["ORDERS", "CUSTOMERS"], "JOINED")]
    queries += [query(f"CTAS_{name}_1", ["JOINED"], name) for name in names]
    queries.append(query("INSERTQUERY_8", ["JOINED"], "ORDERS"))
    page.route("**/ui/data", lambda route: route.fulfill(json={**SEEN, "sources": sources, "queries": queries}))
    nodes = page.locator("#application .node")
    expect(nodes).to_have_count(len(sources) + len(queries) + 1)
    room = page.locator("#application")
    assert room.evaluate("node => node.scrollWidth <= node.clientWidth")
    texts = nodes.locator("span")
    assert texts.evaluate_all("all => all.filter((each) => each.scrollWidth > each.clientWidth).length") == 0
    assert texts.evaluate_all("all => Math.min(...all.map((each) => each.getBoundingClientRect().height))") >= 13
    boxes = [node.bounding_box() for node in nodes.all()]
    assert all(
        one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
        or one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        for at, one in enumerate(boxes) if one for other in boxes[:at] if other
    ), "no node lies on another"  # fmt: skip


CROWDED = """room => {
  const boxes = [...room.querySelectorAll(".node")].map((node) => node.getBoundingClientRect());
  const lines = [...room.querySelectorAll(".edge")].map((path) => {
    const at = path.getScreenCTM(), length = path.getTotalLength();
    return Array.from({ length: Math.floor(length) }, (_, n) => path.getPointAtLength(n).matrixTransform(at));
  });
  const isIn = (point) => boxes.some((box) => point.x > box.left + 3 && point.x < box.right - 3 && point.y > box.top + 3 && point.y < box.bottom - 3);
  const begin = (line) => `${Math.round(line[0].x)} ${Math.round(line[0].y)}`;
  const together = (one, other) => one.filter((point) => other.some((next) => Math.hypot(point.x - next.x, point.y - next.y) < 1)).length;
  return lines.flatMap((line, n) => [
    ...line.some(isIn) ? [`line ${n} passes through a node`] : [],
    ...lines.slice(0, n).flatMap((other, m) => begin(other) !== begin(line) && together(line, other) > 6 ? [`line ${n} lies on line ${m}`] : []),
  ]);
}"""


@pytest.mark.parametrize("size", SIZES, ids=["1280", "390"])
def test_no_line_of_the_application_lies_on_another_or_on_a_node(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    summed = [f"SUMMED_BY_COUNTRY_{n}" for n in range(5)]
    sources = [source(name) for name in ("CUSTOMERS", "ORDERS", "SHIPMENTS", "JOINED", "SHIPPED", *summed, "LAST")]
    queries = [
        query("JOIN_0", ["ORDERS", "CUSTOMERS"], "JOINED"), query("JOIN_1", ["ORDERS", "SHIPMENTS"], "SHIPPED"),
        *(query(f"CTAS_{name}_2", ["JOINED"], name) for name in summed),
        query("JOIN_3", ["SHIPPED", summed[0], summed[4]], "LAST"), query("INSERTQUERY_4", ["LAST"], "ORDERS"),
    ]  # fmt: skip
    page.route("**/ui/data", lambda route: route.fulfill(json={**SEEN, "sources": sources, "queries": queries}))
    expect(page.locator("#application .node")).to_have_count(len(sources) + len(queries) + 2)
    assert page.locator("#application").evaluate(CROWDED) == []


@pytest.mark.parametrize("size", SIZES, ids=["1280", "390"])
def test_figures_of_a_query_stand_below_their_head_or_beside_it(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    history = {"Q": [[n, n, n, n] for n in range(9)]}
    page.route(
        "**/ui/data",
        lambda route: route.fulfill(json={**SEEN, "queries": [query("Q", ["A"], None)], "history": history}),
    )
    expect(page.locator("#queries svg")).to_have_count(2)
    ends = page.locator("#queries td.number").evaluate_all("""cells => cells.map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell.lastChild);
        const text = range.getBoundingClientRect(), box = cell.getBoundingClientRect();
        return [Math.round(box.right - text.right), Math.round(text.top)];
    })""")
    assert len({end for end, _ in ends}) == 1, "all at the right"
    assert len({top for _, top in ends}) == (1 if size is WIDE else 4), "on one line, or on one for each pair"


def test_queries_are_sorted_and_the_log_is_folded(page: Page, url: str) -> None:
    page.route(
        "**/ui/data",
        lambda route: route.fulfill(
            json={
                **SEEN, "bad_records": 400,
                "queries": [
                    {**query(f"Q_{n}", ["A"], None), "rows_in": n * 7 % 3,
                     **({"state": "ERROR", "error": "the disk is full"} if n == 1 else {})}
                    for n in range(3)
                ],
                "errors": [
                    {"time": 1700000000000, "query": "Q_1", "topic": "t", "partition": 0, "offset": n, "message": "bad"}
                    for n in range(400)
                ],
            }
        ),
    )  # fmt: skip
    offsets = {"topicPartitionEntity": {"topic": "t", "partition": 0}, "endOffset": 50, "committedOffset": 8}
    explained = {
        "queryErrors": [{"timestamp": 1700000000000, "errorMessage": "no space left", "type": "SYSTEM"}],
        "tasksMetadata": [{"taskId": "0_0", "topicOffsets": [offsets]}],
    }
    page.route("**/ksql", lambda route: route.fulfill(json=[{"queryDescription": explained}]))
    page.route("**/ui/plan/*", lambda route: route.fulfill(json=[]))
    expect(page.locator("#log-summary")).to_contain_text("400 bad records")
    assert page.evaluate("document.documentElement.scrollHeight") < 1600
    page.get_by_role("button", name="Rows in").click()
    assert [row.split()[0] for row in page.locator("#queries tbody tr").all_inner_texts()] == ["Q_2", "Q_1", "Q_0"]
    page.get_by_role("button", name="Rows in").click()
    assert page.locator("#queries th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert page.locator("#queries tbody tr").first.inner_text().startswith("Q_0")
    expect(page.locator("#queries tbody tr", has_text="Q_1")).to_contain_text("the disk is full")
    page.locator("#queries").get_by_role("button", name="Q_1").click()
    detail = page.locator("#queries .detail")
    expect(detail).to_contain_text("no space left")
    assert detail.locator("table").last.locator("tr").all_inner_texts()[-1].split("\t")[-1] == "42", "the lag"
    page.locator("#log summary").click()
    assert page.locator("#errors tbody tr").count() == 400
    assert page.locator("#errors .grid").evaluate("node => node.clientHeight") < 800


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in(browser: Browser, url: str, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{url}/ui")
    ink, ground = (channels(page, "body", which) for which in ("color", "background-color"))
    assert contrast(ink, ground) > 7
    assert contrast(channels(page, "h2", "color"), channels(page, "section", "background-color")) > 7
    page.close()


def channels(page: Page, selector: str, which: str) -> list[float]:
    found = page.locator(selector).first.evaluate(f"node => getComputedStyle(node).getPropertyValue('{which}')")
    return [int(part) / 255 for part in found.removeprefix("rgb(").removesuffix(")").split(",")]


def contrast(one: list[float], other: list[float]) -> float:
    def luminance(parts: list[float]) -> float:
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_page_loads_nothing_from_elsewhere(url: str) -> None:
    for name in ("", "/style.css", "/page.js", "/dagre.js", "/dagre.LICENSE.txt"):
        answer = http.get(f"{url}/ui{name}")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert http.get(f"{url}/ui/secret").status_code == 404


def test_metrics(url: str) -> None:
    text = http.get(f"{url}/metrics").text
    for name in ("kestrel_up 1.0", 'kestrel_query_lag_records{query="CTAS_TOTALS_0"}', "kestrel_rows_inserted_total"):
        assert name in text
