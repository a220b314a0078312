"""The commands `kestrel plan` and `kestrel apply`: what a script would do to what runs, and its execution."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.broker_options import run_settings, wants_broker
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import (
    add_engine_options,
    add_fail_option,
    add_format_option,
    add_script_options,
    add_scripts,
)
from kestrel_sql.cli.remote import RemoteServer, add_remote_options
from kestrel_sql.cli.remote_plan import RemotePlan, Step
from kestrel_sql.cli.render import Display, warn
from kestrel_sql.cli.run_kafka import add_kafka_options, run_on_broker
from kestrel_sql.cli.scripts import planning_session, texts_of
from kestrel_sql.cli.usage import refuse
from kestrel_sql.errors import UsageError
from kestrel_sql.kafka.client.offsets import to_members
from kestrel_sql.kafka.run.forecast import Action, Forecast, Forecasting
from kestrel_sql.sql.script_files import script_files

_SIGNS = {
    Action.UNCHANGED: (" ", "unchanged", ""),
    Action.CHANGED: ("~", "changed, its state is kept", "yellow"),
    Action.REBUILT: ("-/+", "begins anew with empty state, and writes its results again", "magenta"),
    Action.NEW: ("+", "new", "green"),
    Action.REFUSED: ("!", "refused", "red"),
    Action.GONE: ("-", "not in the script", "red"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_scripts(parser)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    add_engine_options(parser)
    add_script_options(parser)
    add_remote_options(parser)
    add_kafka_options(parser)
    add_format_option(parser)
    add_fail_option(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel plan` and `kestrel apply`."""
    if (arguments.server is None) == (not wants_broker(arguments)):
        raise UsageError("name what runs: --server URL, or --bootstrap-servers HOST:PORT and --checkpoint DIR")
    if arguments.command == "plan":
        refuse(
            arguments,
            ("adopt", "remove_members", "sink_from"),
            "here",
            "kestrel adopt --dry-run SCRIPT says what would be taken over",
        )
    files = script_files(arguments.scripts)
    steps = _on_server(files, arguments, errors) if arguments.server else _in_checkpoint(files, arguments, errors)
    due = [step for step in steps if _is_due(step.forecast, arguments)]
    forecasts = [step.forecast for step in steps]
    out.print(_json(forecasts) if arguments.json else _shown(forecasts), soft_wrap=True, highlight=False)
    refused = any(each.action is Action.REFUSED for each in forecasts)
    if arguments.command == "plan" or refused:
        return ExitCode.REFUSED if refused else ExitCode.CHANGES if due else ExitCode.OK
    if arguments.server is None:
        return ExitCode.OK if run_on_broker(files, arguments, out, errors) else ExitCode.REFUSED
    server = RemoteServer.of(arguments)
    for step in due:
        for text in step.texts:
            display = Display.of(None, out, errors)
            server.properties = dict(step.properties)
            if not server.run_text(text, display):
                return ExitCode.REFUSED
    return ExitCode.OK


def _is_due(forecast: Forecast, arguments: argparse.Namespace) -> bool:
    """Whether something is to be done; what the script does not have stays without `--prune`, unless it drops it."""
    if forecast.action is Action.GONE:
        return arguments.prune or bool(forecast.why)
    return forecast.action is not Action.UNCHANGED


def _in_checkpoint(files: Sequence[Path], arguments: argparse.Namespace, errors: Console) -> list[Step]:
    settings = run_settings(arguments, until_caught_up=arguments.until_caught_up)
    application = Forecasting(
        settings=replace(settings, rebuilds=arguments.rebuild),
        session=planning_session(arguments),
        log_topic=None,
        say=warn(errors),
        show=lambda _: None,
        answer=lambda _: None,
    )
    return [Step(each) for each in application.forecast(*texts_of(files, Display.of(None, errors, errors)))]


def _on_server(files: Sequence[Path], arguments: argparse.Namespace, errors: Console) -> list[Step]:
    session = planning_session(arguments)
    known = replace(session, variables=dict(session.variables))
    plan = RemotePlan(RemoteServer.of(arguments), session, rebuilds=arguments.rebuild)
    statements = [each for text in texts_of(files, Display.of(None, errors, errors)) for each in known.parse(text)]
    return [*plan.steps(statements)]


def _json(forecasts: Sequence[Forecast]) -> Text:
    queries = [
        {
            "name": each.name,
            "queryId": each.query_id or None,
            "action": each.action.value,
            "why": each.why or None,
            "changes": list(each.changes),
            "start": to_members(each.start),
        }
        for each in forecasts
    ]
    return Text(json.dumps({"queries": queries}, indent=2))


def _shown(forecasts: Sequence[Forecast]) -> Text:
    lines = Text()
    for each in forecasts:
        sign, what, style = _SIGNS[each.action]
        of = f" ({each.query_id})" if each.query_id else ""
        lines.append(f"{sign:>3} {each.name}{of}: {what}\n", style)
        lines.append("".join(map(_indented, (each.why, *each.changes))))
        if each.start and each.action in (Action.NEW, Action.REBUILT):
            begins = ", ".join(f"{topic}-{partition} at {at}" for (topic, partition), at in sorted(each.start.items()))
            lines.append(_indented(f"reads from {begins}"))
    counts = Counter(each.action for each in forecasts)
    total = ", ".join(f"{counts[action]} {action.value}" for action in Action if counts[action])
    return lines.append(f"Plan: {total or 'nothing runs, and nothing is to run'}.")


def _indented(text: str) -> str:
    return "".join(f"      {line}\n" for line in text.splitlines())
