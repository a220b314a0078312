"""The commands `qtt init`, which begins a project with a script, cases and configuration, and `qtt schema`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kestrel_qtt.cases.schema import schema_text
from kestrel_qtt.cli.run import ExitCode, OpenDriver, add_command, plain_console

APP = """\
-- The application: orders of at least 10 are passed on, and counted by item.
CREATE STREAM ORDERS (ID INT KEY, ITEM STRING, PRICE DOUBLE)
  WITH (kafka_topic='orders', value_format='JSON');

CREATE STREAM LARGE_ORDERS WITH (kafka_topic='large-orders') AS
  SELECT ID, UCASE(ITEM) AS ITEM, PRICE
  FROM ORDERS
  WHERE PRICE >= 10;

CREATE TABLE ITEMS WITH (kafka_topic='items') AS
  SELECT ITEM, COUNT(*) AS ORDERS
  FROM ORDERS
  GROUP BY ITEM;
"""

CASES = """\
# yaml-language-server: $schema=../case.schema.json
tests:
  - name: large orders are passed on in upper case
    statements: {file: ../app.sql}
    inputs:
      - {topic: orders, key: 1, value: {ITEM: tea, PRICE: 12.5}, timestamp: 100}
      - {topic: orders, key: 2, value: {ITEM: pen, PRICE: 2.0}, timestamp: 200}
    outputs:
      - {topic: large-orders, key: 1, value: {ITEM: TEA, PRICE: 12.5}, timestamp: 100}
      - {topic: items, key: tea, value: {ORDERS: 1}}
      - {topic: items, key: pen, value: {ORDERS: 1}}

  # Break the application to see a difference: write > instead of >= in app.sql, and run the cases again.
  - name: an order at the limit is large
    statements: {file: ../app.sql}
    inputs:
      - {topic: orders, key: 1, value: {ITEM: cup, PRICE: 10.0}, timestamp: 100}
    outputs:
      - {topic: large-orders, key: 1, value: {ITEM: CUP, PRICE: 10.0}, timestamp: 100}
      - {topic: items, key: cup, value: {ORDERS: 1}}

  - name: items are counted over all orders of a file
    statements: {file: ../app.sql}
    inputs: {file: orders.csv}
    unordered: true                # the order counts among records of one key only
    outputs:
      - {topic: items, key: pen, value: {ORDERS: 1}}
      - {topic: items, key: tea, value: {ORDERS: 1}}
      - {topic: items, key: tea, value: {ORDERS: 2}}
      - {topic: large-orders, key: 1, value: {ITEM: TEA, PRICE: 12.5}}
"""

ORDERS = """\
ID,ITEM,PRICE,ROWTIME
1,tea,12.5,100
2,pen,2,200
3,tea,9.75,300
"""

PROJECT = """\
[tool.pytest.ini_options]
qtt_cases = ["cases"]        # pytest runs the cases of this folder, too
"""

FILES: Mapping[str, str] = MappingProxyType(
    {"app.sql": APP, "cases/orders.yaml": CASES, "cases/orders.csv": ORDERS, "pyproject.toml": PROJECT}
)
"""What `qtt init` writes, besides the schema of case files."""


def add_init(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt init`."""
    text = "write a script, three cases and a pyproject.toml to begin with"
    command = add_command(commands, "init", text, examples, init_command)
    command.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="where to begin (default: here)"
    )


def init_command(arguments: argparse.Namespace, _: OpenDriver) -> ExitCode:
    """`qtt init`: write the files of a new project; none of them may exist."""
    folder: Path = arguments.folder
    files = {folder / name: text for name, text in {**FILES, "case.schema.json": schema_text()}.items()}
    out, errors = plain_console(), plain_console(stderr=True)
    taken = [str(path) for path in files if path.exists()]
    if taken:
        errors.print(f"qtt: nothing written, since there is {', '.join(taken)} already")
        return ExitCode.USAGE
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        out.print(f"wrote {path}")
    where = "" if folder == Path() else f"cd {folder} && "
    out.print(
        f"\nnext: {where}qtt run cases     three cases pass\n"
        "then write > instead of >= in app.sql, and run them again: the second case shows the difference",
    )
    return ExitCode.OK


HOW = """qtt: this is the JSON schema of case files. To let an editor complete and check them:
  qtt schema > case.schema.json
  YAML  begin a file with  # yaml-language-server: $schema=case.schema.json
  JSON  begin a file with  "$schema": "case.schema.json"
VS Code needs the extension YAML of Red Hat; IntelliJ and Neovim (yaml-language-server) read the same line."""


def add_schema(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt schema`."""
    text = "print the JSON schema of case files, and say how an editor takes it"
    add_command(commands, "schema", text, f"{HOW}\n\n{examples}", schema_command)


def schema_command(_: argparse.Namespace, __: OpenDriver) -> ExitCode:
    """`qtt schema`: the schema goes to standard output, the explanation to standard error."""
    sys.stdout.write(schema_text())
    plain_console(stderr=True).print(HOW)
    return ExitCode.OK
