"""`kestrel state`: looks into the state of a checkpoint and rescales it, without a broker or a session of Spark."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kestrel_sql.admin.readable import readable
from kestrel_sql.cli.broker_options import checkpoint_option
from kestrel_sql.cli.render import shown, to_json
from kestrel_sql.cli.usage import count_option, pairs_of, refuse
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.connector.store import open_store_alone
from kestrel_sql.kafka.run.rescaling import rescale_checkpoint
from kestrel_sql.kafka.run.run import StoreUri
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.operators.operator import Key, Value, Window
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.spark.state_tools.difference import Difference, differences
from kestrel_sql.spark.state_tools.parquet import export_query
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, StoredStep
from kestrel_sql.spark.state_tools.summary import StepSummary, as_document, summarise
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import BIGINT, INTEGER, STRING, TIMESTAMP

_EXAMPLES = """examples:
  kestrel state ls /data/app                             the stateful steps of all queries, with their sizes
  kestrel state ls /data/app --json                      the same, one JSON object a line
  kestrel state show /data/app tea                       the rows of the key 'tea', one JSON object a line
  kestrel state show /data/app '["tea", 7]' --query CTAS_COUNTS_1
                                                         those of a key of two columns, in one query
  kestrel state export /data/app --parquet out           out/QUERY/STEP.parquet, for pandas, DuckDB or Spark
  kestrel state ls s3a://bucket/app                      those of a checkpoint on a store
  kestrel state diff /data/app /backup/app               the keys whose rows differ; exit code 1 if there are any
  kestrel state rescale --checkpoint /data/app --partitions 8
                                                         the states of a stopped run for 8 cores instead of 2
  kestrel state rescale --checkpoint /data/app --partitions 32 --pages 256
                                                         the same, with more and smaller pages

A checkpoint that a run holds is read as of its last committed batch; only `rescale` writes one, and no run may hold it.
"""

_SHOWN = 50


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the actions with their options."""
    raw = argparse.RawDescriptionHelpFormatter
    command.epilog, command.formatter_class = _EXAMPLES, raw
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=text, description=text, epilog=_EXAMPLES, formatter_class=raw
        )
        parser.add_argument("--functions", type=Path, action="append", default=[], metavar="FILE", help=_FUNCTIONS)
        return parser

    folder = "the --checkpoint of a run, a folder or a store, or Spark's checkpoint of one query"
    ls = add("ls", "list the stateful steps of the queries: pages, keys, rows, bytes, stream times")
    ls.add_argument("checkpoint", type=checkpoint_option, metavar="CHECKPOINT", help=folder)
    ls.add_argument("--json", action="store_true", help="print one JSON object for each step")
    show = add("show", "show the rows of one key")
    show.add_argument("checkpoint", type=checkpoint_option, metavar="CHECKPOINT", help=folder)
    show.add_argument("key", metavar="KEY", help="the key; for one of several columns a JSON list")
    export = add("export", "write the rows of all steps to files")
    export.add_argument("checkpoint", type=checkpoint_option, metavar="CHECKPOINT", help=folder)
    export.add_argument("--parquet", type=Path, metavar="DIR", required=True, help="a new or an empty folder")
    diff = add("diff", "say which keys and rows of two checkpoints differ")
    diff.add_argument("left", type=checkpoint_option, metavar="A", help=folder)
    diff.add_argument("right", type=checkpoint_option, metavar="B", help="another one")
    diff.add_argument(
        "--limit",
        type=count_option,
        default=_SHOWN,
        metavar="N",
        help=f"show at most N differences ({_SHOWN} by default)",
    )
    rescale = add("rescale", "rewrite the states of a stopped run for other numbers of partitions and pages")
    stopped = "the --checkpoint of a stopped run"
    rescale.add_argument("--checkpoint", type=checkpoint_option, metavar="DIR|URI", required=True, help=stopped)
    partitions = "the partitions of each stateful level: how many cores can work on it at once"
    rescale.add_argument("--partitions", type=count_option, metavar="N", required=True, help=partitions)
    pages = "the pages of each task, which stay as they are by default"
    rescale.add_argument("--pages", type=count_option, metavar="M", help=pages)
    for parser in (ls, show, export, diff, rescale):
        parser.add_argument("--spark-conf", **pairs_of("K=V"), help=_SETTINGS)
        parser.add_argument("--query", metavar="QUERY", help="only this query, by its id or its name")


_FUNCTIONS = "functions of your own, as the run has them"
_SETTINGS = "a setting for a store, such as spark.hadoop.fs.s3a.endpoint=URL; may be repeated"


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    """Run an action; returns the exit code.

    Raises:
        EngineError: there is no checkpoint, it is damaged, or it has no such query; a store does not answer.
    """
    with ExitStack() as stack:
        given_by = {name: getattr(arguments, name, None) for name in ("checkpoint", "left", "right")}
        if not any(isinstance(given, StoreUri) for given in given_by.values()):
            refuse(arguments, ("spark_conf",), "on a checkpoint in a folder", "leave it out")
        for name, given in given_by.items():
            if isinstance(given, StoreUri):
                opened = open_store_alone(given.text, dict(arguments.spark_conf))
                setattr(arguments, name, stack.enter_context(opened))
        return _ACTIONS[arguments.action](arguments, out, errors)


def _queries(arguments: argparse.Namespace, folder: CheckpointPath) -> list[StoredQuery]:
    return stored_queries(folder, functions_with(arguments.functions), arguments.query)


def _ls(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    queries = _queries(arguments, arguments.checkpoint)
    if arguments.json:
        for query in queries:
            for summary in summarise(query):
                _print(out, json.dumps(as_document(query, summary), ensure_ascii=False))
        return 0
    for query in queries:
        _print(out, f"{query.id} ({query.name}): {_progress(query)}")
        for summary in summarise(query):
            _print(out, f"  {_described_step(summary)}")
            for task, time in sorted(summary.times.items()):
                _print(out, f"    stream time of task {task}: {readable(time, TIMESTAMP)}")
    return 0


def _described_step(summary: StepSummary) -> str:
    step = summary.step
    counts = [
        _count(number, noun)
        for number, noun in (
            (summary.partitions, "partition"),
            (summary.pages, "page"),
            (summary.keys, "key"),
            (summary.rows, "row"),
            (summary.bytes, "byte"),
        )
    ]
    return f"{step.name}: {type(step.operator).__name__}, level {step.level}, {', '.join(counts)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _progress(query: StoredQuery) -> str:
    metadata = query.metadata
    batch = f"last batch {query.batches - 1}" if query.batches else "no batch yet"
    if not query.steps:
        return f"{batch}; it keeps no state"
    tasks = max(metadata.tasks, default=1)
    return (
        f"{batch}; {_count(tasks, 'task')} of {_count(metadata.pages, 'page')}; written by Kestrel {metadata.release}"
    )


def _show(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    found = 0
    for query in _queries(arguments, arguments.checkpoint):
        for step in query.steps:
            for line in _rows_of(query, step, arguments.key):
                found += 1
                _print(out, line)
    if not found:
        errors.print(Text(f"no state has the key {arguments.key}", "yellow"), soft_wrap=True)
    return 0 if found else 1


def _rows_of(query: StoredQuery, step: StoredStep, text: str) -> Iterator[str]:
    restored = step.keys()
    for page, entry in query.rows(step, _typed(text, step.key_columns(0))):
        columns = step.key_columns(entry.side)
        key = restored(entry.side, entry.key)
        if _is_named(text, key, columns):
            yield to_json(
                {
                    "query": query.id,
                    "step": step.name,
                    "part": entry.part,
                    "key": _named(key, columns),
                    **_window(entry.window),
                    "timestamp": readable(entry.timestamp, TIMESTAMP),
                    "value": None if entry.value is None else _named(entry.value, step.value_columns(entry.side)),
                    "task": page.task,
                    "page": page.page,
                }
            )


def _typed(text: str, columns: Sequence[Column]) -> Key | None:
    """The key that a text names, if its type is simple: then only its page is read."""
    if [column.type for column in columns] == [STRING]:
        return (text,)
    is_number = text.removeprefix("-").isdecimal() and len(text) < 10
    return (int(text),) if is_number and [c.type for c in columns] in ([INTEGER], [BIGINT]) else None


def _is_named(text: str, key: Key, columns: Sequence[Column]) -> bool:
    values = [readable(value, column.type) for value, column in zip(key, columns, strict=False)]
    if len(values) == 1 and shown(values[0]) == text:
        return True
    try:
        given = json.loads(text)
    except ValueError:
        return False
    return bool(given == json.loads(to_json(values[0] if len(values) == 1 and len(columns) == 1 else values)))


def _named(values: Sequence[object], columns: Sequence[Column]) -> Mapping[str, object]:
    return {column.name: readable(value, column.type) for value, column in zip(values, columns, strict=False)}


def _window(window: Window | None) -> Mapping[str, object]:
    if window is None:
        return {}
    return {"window": [readable(bound, TIMESTAMP) for bound in window]}


def _export(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    folder: Path = arguments.parquet
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise EngineError(f"{folder} is not an empty folder", hint="name a new one")
    queries = _queries(arguments, arguments.checkpoint)
    for query in queries:
        for path, rows in export_query(query, folder):
            _print(out, f"{path}: {_count(rows, 'row')}")
    return 0


def _diff(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    lefts, rights = (
        {query.name: query for query in _queries(arguments, folder)} for folder in (arguments.left, arguments.right)
    )
    if len(lefts) == len(rights) == 1:
        pairs = list(zip(lefts.values(), rights.values(), strict=True))
    else:
        pairs = [(lefts[name], rights[name]) for name in lefts if name in rights]
    alone = 0
    for own, other, folder in ((lefts, rights, arguments.left), (rights, lefts, arguments.right)):
        for name in own if len(lefts) != 1 or len(rights) != 1 else ():
            if name not in other:
                alone += 1
                _print(out, f"only {folder} has the query {name}")
    total = 0
    for left, right in pairs:
        found = differences(left, right)
        for difference in islice(found, max(arguments.limit - total, 0)):
            total += 1
            _print(out, _described(left, difference))
        total += sum(1 for _ in found)
    if total > arguments.limit:
        _print(out, f"and {total - arguments.limit} more")
    _print(errors, "no difference" if not total + alone else _count(total, "difference"))
    return 1 if total + alone else 0


def _rescale(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    found = rescale_checkpoint(
        arguments.checkpoint,
        functions_with(arguments.functions),
        partitions=arguments.partitions,
        pages=arguments.pages,
        wanted=arguments.query,
        say=lambda sentence: _print(errors, sentence),
    )
    for rescaled in found:
        query = rescaled.query
        numbers = f"{_count(arguments.partitions, 'partition')}, tasks of {_count(query.metadata.pages, 'page')}"
        _print(out, f"{query.id}: {numbers}; {_count(rescaled.rows, 'item')} of state compared, all the same")
    if not found:
        _print(errors, "no query has state to rescale")
    return 0


def _described(query: StoredQuery, difference: Difference) -> str:
    step, side = difference.step, difference.side
    is_time = difference.part == "stream time"
    key = {"task": difference.key[0]} if is_time else _named(difference.key, step.key_columns(side))

    def row(timestamp: int | None, value: Value | None) -> Mapping[str, object]:
        found = {} if timestamp is None else {"timestamp": readable(timestamp, TIMESTAMP)}
        return found if is_time or value is None else {**found, "value": _named(value, step.value_columns(side))}

    return to_json(
        {
            "query": query.id,
            "step": step.name,
            "part": difference.part,
            "key": key,
            **_window(difference.window),
            "a": [row(*found) for found in difference.left],
            "b": [row(*found) for found in difference.right],
        }
    )


def _print(console: Console, line: str) -> None:
    console.print(Text(line), soft_wrap=True)


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Console, Console], int]] = {
    "ls": _ls,
    "show": _show,
    "export": _export,
    "diff": _diff,
    "rescale": _rescale,
}
