"""Damages the files of a checkpoint: a query refuses it with an error of ours that names it, or goes on as if nothing were.

The checkpoint is that of an aggregate after two batches. Each try damages one file of a copy and resumes from it.
"""

from __future__ import annotations

import random
import re
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from kestrel_qtt.plan_commands.resume import resume_copy
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.resumable import ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record
from tests.engine.formats.test_mutations import mutate

STATEMENTS = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');
    CREATE TABLE T AS SELECT K, SUM(V) AS N FROM S GROUP BY K;
"""
_ODD_TEXTS = (b"", b"v1", b"v1\n{}", b"v1\n7", b"{}", b"[1]", b"null", b"\xff\xfe", b"v9\n{}\n{}", b'{"id":5}')
_TRACE = re.compile(r"Py4J|Traceback|\bat org\.|\bjava\.|Exception:|Error: '|SQLSTATE")


def damages(seed: int, tries: int) -> Iterator[str]:
    """Damage files of each kind in turn; yield what ends in anything but a refusal of ours or the same output."""
    rng, runner = random.Random(seed), ResumableRunner(open_test_session())
    try:
        query = _pipeline()
        written = runner.open(query)
        fed = [_record(at) for at in range(8)]
        written.advance(fed)
        kinds = _kinds(written.checkpoint)
        expected = _resumed(runner, query, written.checkpoint, fed)
        for number in range(tries):
            kind = sorted(kinds)[number % len(kinds)]
            yield from _tried(runner, query, written.checkpoint, fed, rng.choice(kinds[kind]), rng, expected)
    finally:
        runner.close()


def _pipeline() -> Pipeline:
    session = Session()
    for parsed in session.parse(STATEMENTS):
        session.execute(parsed)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, serde=session.serde())])


def _record(at: int) -> Record:
    return Record(topic="s", key=b"k%d" % (at % 4), value=b'{"V": %d}' % at, timestamp=at, offset=at)


def _kinds(checkpoint: Path) -> dict[str, list[Path]]:
    """Return the files by kind: their path without numbers."""
    kinds: dict[str, list[Path]] = {}
    for file in sorted(checkpoint.rglob("*")):
        if file.is_file() and file.stat().st_size:
            path = file.relative_to(checkpoint)
            kinds.setdefault(re.sub(r"[0-9a-f-]{36}|\d+", "N", str(path)), []).append(path)
    return kinds


def _resumed(runner: ResumableRunner, query: Pipeline, checkpoint: Path, fed: list[Record]) -> str:
    resumed = resume_copy(runner, query, checkpoint, fed)
    try:
        return repr([(record.key, record.value) for record in resumed.advance([_record(8)]).records])
    finally:
        resumed.close()


def _tried(
    runner: ResumableRunner,
    query: Pipeline,
    original: Path,
    fed: list[Record],
    path: Path,
    rng: random.Random,
    expected: str,
) -> Iterator[str]:
    copy = original.with_name("damaged")
    shutil.copytree(original, copy)
    try:
        done = _damage(rng, copy / path)
        try:
            found = _resumed(runner, query, copy, fed)
        except EngineError as error:
            if _TRACE.search(f"{error.message}\n{error.hint or ''}"):
                yield f"{done} {path}: {error.message}"
        except Exception:  # noqa: BLE001 - any other error is a find
            yield f"{done} {path}:\n{traceback.format_exc(limit=-4)[-1500:]}"
        else:
            if found != expected:
                yield f"{done} {path}: {found} instead of {expected}"
    finally:
        shutil.rmtree(copy)


def _damage(rng: random.Random, file: Path) -> str:
    """Damage a file, mostly without the checksum beside it, which would tell at once."""
    if rng.random() < 0.8:
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    data = file.read_bytes()
    choice: tuple[str, Callable[[], bytes]] = rng.choice(
        [
            ("mutated", lambda: mutate(rng, data)),
            ("cut", lambda: data[: rng.randrange(len(data))]),
            ("doubled", lambda: data + data),
            ("replaced", lambda: rng.choice(_ODD_TEXTS)),
            ("other digits", lambda: re.sub(rb"\d", lambda _: b"%d" % rng.randrange(10), data)),
        ]
    )
    if rng.random() < 0.15:
        file.unlink()
        return "removed"
    name, change = choice
    file.write_bytes(change())
    return name
