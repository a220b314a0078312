"""Reading state without Spark: what `kestrel state ls | show | export | diff` say of a checkpoint."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kestrel_sql.cli.main import main
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.store_files import read_pages, write_pages
from kestrel_sql.types.sql_types import STRING
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.spark.state_tools.checkpoints import pipeline
from tests.engine.spark.state_tools.fabricated import fabricate

ROOT = Path(__file__).resolve().parents[4]


def stream_rows(last: int) -> list[Row]:
    return [Row(0, (f"k{at % 5}",), (f"k{at % 5}", at, 0, 0, 0), 1000 * at) for at in range(last)]


def rows_of(shape: str, count: int, *, keys: int = 5, apart: int = 1) -> list[Row]:
    """Rows for each input of a query in turn, some ms apart, with values that fit its columns."""
    inputs = pipeline(shape).graph.levels[0][0].inputs
    sides = [[column.type == STRING for column in handle.schema.value] for handle in inputs]
    rows = []
    for at in range(count):
        side, key = at % len(sides), f"k{at % keys}"
        rows.append(Row(side, (key,), tuple(str(at) if text else at for text in sides[side]), apart * at))
    return rows


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return fabricate(tmp_path / "tables", pipeline("table-table"), rows_of("table-table", 20))


@pytest.fixture
def windows(tmp_path: Path) -> Path:
    return fabricate(tmp_path / "windows", pipeline("windows"), stream_rows(12))


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["state", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def files(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_pages_that_spark_wrote_are_read(tmp_path: Path) -> None:
    for number, archive in enumerate(sorted((ROOT / "historic-plans").rglob("checkpoint-*.zip"))):
        with zipfile.ZipFile(archive) as stored:
            stored.extractall(tmp_path / str(number))
        batches = len(list((tmp_path / str(number) / "commits").iterdir()))
        for operator in (tmp_path / str(number) / "state").iterdir():
            pages = list(read_pages(operator / "0", batches))
            assert pages, archive
            assert all(load_state(page.blob) for page in pages)


def test_a_store_may_be_empty_or_large(tmp_path: Path) -> None:
    write_pages(tmp_path / "0", 1, [])
    assert list(read_pages(tmp_path / "0", 1)) == []
    pages = [StoredPage(task, page, bytes([page]) * size) for task in (0, 3) for page, size in ((0, 0), (9, 300_001))]
    write_pages(tmp_path / "1", 5, pages)
    assert sorted(read_pages(tmp_path / "1", 5), key=lambda page: (page.task, page.page)) == pages


def test_ls_counts_what_a_state_holds(windows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(windows)
    code, out, _ = told(capsys, "ls", windows, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["operator"], found["step"]) == ("TimeWindowAggregate", "Aggregate.Aggregate")
    assert (found["partitions"], found["pages"], found["tasks"], found["pagesPerTask"]) == (2, 2, 2, 4)
    assert (found["keys"], found["rows"], found["lastBatch"]) == (5, 7, 0)
    assert max(found["streamTimes"].values()) == 11_000
    assert len(found["streamTimes"]) == 2
    code, out, _ = told(capsys, "ls", windows)
    assert "last batch 0; 2 tasks of 4 pages" in out
    assert "2 partitions, 2 pages, 5 keys, 7 rows," in out
    assert "1970-01-01T00:00:11.000" in out
    assert files(windows) == before


def test_show_prints_the_rows_of_a_key(tables: Path, windows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "show", tables, "k3")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["part"], row["value"]["T_W" if row["part"] == "left" else "U_W"]) for row in rows] == [
        ("left", 18),
        ("right", 13),
    ]
    assert rows[0]["timestamp"] == "1970-01-01T00:00:00.018"
    code, out, _ = told(capsys, "show", windows, "k1")
    windows_of = [json.loads(line)["window"] for line in out.splitlines()]
    assert windows_of == [
        ["1970-01-01T00:00:00.000", "1970-01-01T00:00:10.000"],
        ["1970-01-01T00:00:10.000", "1970-01-01T00:00:20.000"],
    ]
    code, out, err = told(capsys, "show", windows, "k9")
    assert (code, out) == (1, "")
    assert "no state has the key k9" in err


def test_export_writes_typed_columns(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "export", tables, "--parquet", tmp_path / "out")
    assert (code, out.count("5 rows")) == (0, 2)
    (left,) = (tmp_path / "out").rglob("*left.parquet")
    rows = pq.read_table(left).to_pylist()
    assert sorted((next(iter(row["key"].values())), row["value"]["T_W"]) for row in rows) == [
        (f"k{at % 5}", at) for at in (10, 16, 12, 18, 14)
    ]
    code, _, err = told(capsys, "export", tables, "--parquet", tmp_path / "out")
    assert code == 1
    assert "is not an empty folder" in err


def test_diff_names_keys_rows_and_stream_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = fabricate(tmp_path / "a", pipeline("windows"), stream_rows(12))
    other = fabricate(tmp_path / "b", pipeline("windows"), stream_rows(13), partitions=3)
    same = fabricate(tmp_path / "c", pipeline("windows"), stream_rows(12), pages=7, partitions=3)
    assert told(capsys, "diff", left, same) == (0, "", "no difference\n")
    code, out, err = told(capsys, "diff", left, other)
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (1, "2 differences\n")
    assert [each["part"] for each in found] == ["stream time", "windows"]
    assert found[1]["key"] == {"K": "k2"}
    assert (found[1]["a"], [row["timestamp"] for row in found[1]["b"]]) == ([], ["1970-01-01T00:00:12.000"])
    assert "and 1 more" in told(capsys, "diff", left, other, "--limit", "1")[1]
    tables = fabricate(tmp_path / "t", pipeline("table-table"), rows_of("table-table", 9))
    assert "have different steps" in told(capsys, "diff", left, tables)[2]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: shutil.rmtree(folder), "does not exist"),
        (lambda folder: shutil.rmtree(folder / "offsets"), "has no manifest.json"),
        (lambda folder: (folder / "state/0/1/1.zip").unlink(), "state/0/1/1.zip does not exist"),
        (lambda folder: (folder / "state/0/1/1.zip").write_bytes(b"PK"), "state/0/1/1.zip is damaged"),
        (lambda folder: next(folder.glob("state/0/1/SSTs/*")).unlink(), ".sst does not exist"),
        (lambda folder: cut(next(folder.glob("state/0/1/SSTs/*"))), "bytes instead of"),
        (lambda folder: flip(next(folder.glob("state/0/1/SSTs/*"))), ".sst is damaged"),
        (lambda folder: (folder / "commits/0").write_text("?"), "commits/0 is not a record of a batch"),
        (lambda folder: (folder / "kestrel.json").unlink(), "has no kestrel.json"),
        (lambda folder: layout(folder, 99), "has layout 99"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    damage: object, said: str, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(damage)
    damage(tables)
    before = files(tables)
    code, out, err = told(capsys, "ls", tables)
    assert (code, out.count("pages,")) == (1, 0)
    assert said in err
    assert "hint: " in err
    assert "INTERNAL" not in err
    assert files(tables) == before


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def flip(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:40] + bytes([data[40] ^ 255]) + data[41:])


def layout(folder: Path, number: int) -> None:
    document = json.loads((folder / "kestrel.json").read_text())
    (folder / "kestrel.json").write_text(json.dumps({**document, "layout": number, "release": "9.1"}))


def test_an_unknown_query_is_named(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "ls", tables, "--query", "TABLE")
    assert code == 1
    assert "has no query TABLE" in err
    assert "tables" in err
