"""The command `kestrel`: a shell, scripts over files, the functions, and the import of a ksqlDB installation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType

from rich.text import Text

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.render import open_console, show_error
from kestrel_sql.errors import EngineError, UsageError
from kestrel_sql.plan.codec.plan_file import engine_version

EXAMPLES = """examples:
  kestrel shell                                         a prompt over topics in memory
  kestrel shell --execute "SHOW FUNCTIONS;"             statements from the command line
  kestrel shell --file app.sql                          statements from a file, then leave
  kestrel run app.sql --input orders=orders.jsonl       a script over records of a file; sinks go to standard output
  kestrel run app.sql --input a=a.json --output out     one out/TOPIC.jsonl for each topic that a query writes
  kestrel run app.sql --bootstrap-servers H:P --checkpoint DIR
                                                        a script against a Kafka broker, until Ctrl-C
  kestrel run app.sql --functions mine.py …             the same, with functions of your own
  kestrel plan app.sql --bootstrap-servers H:P --checkpoint DIR
                                                        what a script would do to what runs; exit code 2: something
  kestrel shell --server http://127.0.0.1:8088          the same prompt against a server of Kestrel or ksqlDB
  kestrel serve                                         ksqlDB's HTTP API over topics in memory, and a page
  kestrel serve --bootstrap-servers H:P --checkpoint DIR
                                                        the same over the topics of a Kafka broker
  kestrel functions SUBSTRING                           what a function takes and gives
  kestrel broker --once make demo-kafka                 a Kafka broker for the time of a command, not for production
  kestrel serve --file migrations --define ENV=test     the same, after the scripts of a folder
  kestrel import app.ksql migrations --stubs mine.py    which statements of scripts would run, without running them
  kestrel import plans/                                 which statements of a ksqlDB installation would run
  kestrel doctor --bootstrap-servers H:P                what this machine lacks for a run, and what to do
  kestrel shadow --left H:P/a --right H:P/b --app app.sql
                                                        whether two systems write the same, while both run
  kestrel adopt --dry-run --bootstrap-servers H:P       what a take-over of ksqlDB's queries would do

A record of an input is {"key": …, "value": …, "timestamp": ms, "headers": [{"KEY": …, "VALUE": base64}]},
in a JSON list or one a line; a source without key columns needs no key. With --input-shape plain it is the value alone.

exit codes: 0 all went well, 1 a statement was refused or a query failed, 2 wrong usage, 3 a bug in Kestrel,
130 Ctrl-C
"""


COMMANDS: Mapping[str, str] = {
    "shell": "a prompt, or statements from a text or file",
    "run": "run a script over records of files, or against a Kafka broker",
    "serve": "answer ksqlDB's HTTP API, and show a page at /ui",
    "plan": "say what a script would do to what runs from a checkpoint or on a server, and change nothing",
    "apply": "do what `kestrel plan` says, unless something is refused",
    "functions": "list the functions, or describe one",
    "broker": "start a Kafka broker for trying things out (not for production)",
    "prepare": "fetch the connector's jars and archive Spark's classes, so that later starts take half the time",
    "doctor": "say whether this machine has what runs need, and what to do where it does not",
    "state": "look into the state of a checkpoint, or rescale it",
    "import": "say which statements of scripts or of a ksqlDB installation would run",
    "shadow": "compare what two systems write for the same queries, until Ctrl-C (docs/shadow.md)",
    "adopt": "say what a take-over of a ksqlDB service would do with each query",
}
"""The commands with their help. The module of each is imported only to run it, as some import Spark."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (the arguments of the process by default) and return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    arguments = build_parser(*(each for each in given if each in COMMANDS)).parse_args(given)
    out, errors = open_console(), open_console(stderr=True)
    try:
        return int(_module(arguments.command).command(arguments, out, errors))
    except UsageError as error:
        show_error(errors, error, None)
        return ExitCode.USAGE
    except EngineError as error:
        show_error(errors, error, None)
        return ExitCode.REFUSED
    except KeyboardInterrupt:
        errors.print("interrupted", style="yellow")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.OK
    except OSError as error:
        if arguments.debug:
            raise
        named = f"{error.filename}: " if error.filename else ""
        show_error(errors, EngineError(f"{named}{error.strerror or error}"), None)
        return ExitCode.REFUSED
    except Exception as error:
        if arguments.debug:
            raise
        first = (str(error) or type(error).__name__).splitlines()[0]
        errors.print(
            Text(f"INTERNAL: {first}\n  hint: this is a bug in Kestrel; rerun with --debug for a traceback", "red"),
            soft_wrap=True,
        )
        return ExitCode.INTERNAL


def build_parser(*wanted: str) -> argparse.ArgumentParser:
    """Build the parser; only the `wanted` commands have their options."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="kestrel", description=__doc__, epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--debug", action="store_true", help="show the Python trace of an internal error")
    parser.add_argument("--version", action="version", version=f"kestrel {engine_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text if name in _DESCRIBED else None)
        if name in _WITH_EXAMPLES:
            command.epilog, command.formatter_class = EXAMPLES, raw
        if name in wanted:
            _module(name).add_options(command)
    return parser


def _module(command: str) -> ModuleType:
    return import_module(f"kestrel_sql.cli.{_MODULES.get(command, command)}")


_MODULES = {"import": "importing", "apply": "plan"}
_DESCRIBED = {"plan", "apply", "state", "shadow"}
_WITH_EXAMPLES = {"shell", "run", "plan", "apply", "broker"}

if __name__ == "__main__":
    sys.exit(main())
