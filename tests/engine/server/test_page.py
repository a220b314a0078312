"""The page in a real browser: the prompt, the plan, dark and light, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from kestrel_sql.server.open import Running
from tests.chromium import browser_only, open_page, start_browser
from tests.engine.server.servers import http, ksql

pytestmark = [
    pytest.mark.spark,
    browser_only,
]


@pytest.fixture(scope="module")
def url(server: Running) -> str:
    text = """
        CREATE STREAM orders (id INT KEY, item STRING, price DOUBLE)
          WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE TABLE totals AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
    """
    assert ksql(server.url, text, streamsProperties={"auto.offset.reset": "earliest"}).status_code == 200
    return server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from start_browser()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with open_page(browser, ignored="status of 400") as page:
        page.goto(f"{url}/")
        assert page.url == f"{url}/ui"
        yield page


def run(page: Page, text: str) -> None:
    page.fill("#sql", text)
    page.keyboard.press("Control+Enter")


def test_statements_of_the_prompt_change_what_the_page_shows(page: Page) -> None:
    run(
        page,
        "CREATE STREAM made (id INT KEY, tags ARRAY<STRING>) WITH (KAFKA_TOPIC='made', VALUE_FORMAT='JSON',"
        " PARTITIONS=1);",
    )
    expect(page.locator("#result")).to_contain_text("Stream created", timeout=60_000)
    summary = page.locator("summary", has_text="MADE")
    summary.click()
    expect(page.locator("details[open]")).to_contain_text("ARRAY<STRING>")
    run(page, "DESCRIBE made;")
    expect(page.locator("#result table")).to_contain_text("TAGS")


def test_an_error_shows_its_place(page: Page) -> None:
    run(page, "SELECT nothing FROM orders;")
    expect(page.get_by_role("alert")).to_contain_text("NOTHING", timeout=60_000)
    expect(page.get_by_role("alert")).to_contain_text("^^^")


def test_rows_of_a_push_query_come_while_it_runs_and_escape_stops_it(page: Page, url: str, server: Running) -> None:
    run(page, "-- what comes\nselect id, item from orders emit changes;")
    expect(page.locator("#result thead")).to_contain_text("ITEM", timeout=60_000)
    ksql(url, "INSERT INTO orders (id, item) VALUES (1, '<b>tea</b>');")
    expect(page.locator("#result tbody")).to_contain_text("<b>tea</b>", timeout=90_000)
    expect(page.locator("#outcome")).to_contain_text("1 row so far")
    page.keyboard.press("Escape")
    expect(page.locator("#outcome")).to_have_text("stopped")
    page.wait_for_timeout(1000)
    assert server.service.figures().push_clients == 0


def test_the_plan_of_a_query_is_a_graph_that_the_keyboard_reaches(page: Page) -> None:
    query = page.get_by_role("button", name="CTAS_TOTALS_0")
    query.focus()
    page.keyboard.press("Enter")
    page.locator("#graph .node").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#step")).to_contain_text("`N` BIGINT")
    assert page.locator("#graph .node").count() >= 4
    assert page.locator("#graph .edge").count() == page.locator("#graph .node").count() - 1


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
    for name in ("", "/style.css", "/page.js"):
        answer = http.get(f"{url}/ui{name}")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert http.get(f"{url}/ui/secret").status_code == 404


def test_metrics(url: str) -> None:
    text = http.get(f"{url}/metrics").text
    for name in ("kestrel_up 1.0", 'kestrel_query_lag_records{query="CTAS_TOTALS_0"}', "kestrel_rows_inserted_total"):
        assert name in text
