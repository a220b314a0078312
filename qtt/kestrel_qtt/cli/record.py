"""The command `qtt record`: write a case from the records of a broker."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from pathlib import Path

from kestrel_qtt.cases.model import Case
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.cases.selection import SelectionError
from kestrel_qtt.cli.approve import propose
from kestrel_qtt.cli.case_text import case_text
from kestrel_qtt.cli.run import ExitCode, OpenDriver, add_carrier, add_command, add_loading, plain_console, progress
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.functions import check_functions
from kestrel_qtt.options import pair, positive
from kestrel_qtt.plans.spec import case_document
from kestrel_qtt.runner import run_group


def add_record(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt record`."""
    text = "write a case from the records of a broker"
    command = add_command(
        commands,
        "record",
        text,
        examples,
        record_command,
        f"{text.capitalize()}: take a sample of the topics that a script reads, with partitions, offsets, timestamps"
        " and headers, mask columns, run the script, and print the case with its outputs.",
    )
    command.add_argument("--kafka", metavar="HOST:PORT", required=True, help="the broker")
    command.add_argument("--app", type=Path, metavar="FILE", required=True, help="the script of the application")
    command.add_argument(
        "--topic",
        action="append",
        required=True,
        type=_last,
        metavar="NAME=last:N",
        help="take the last N records of a topic; may be repeated. Of other topics that the script reads, the records"
        " are taken whose key is a key or column of these",
    )
    command.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="COLUMN",
        help="mask a column such as value.EMAIL or key.ID; equal values become equal masks; may be repeated",
    )
    command.add_argument("--salt", default="", metavar="TEXT", help="a secret, so that nobody can guess what is masked")
    command.add_argument(
        "--variable", action="append", default=[], type=pair, metavar="NAME=VALUE", help="what ${NAME} stands for"
    )
    command.add_argument("--schema-registry", metavar="URL", help="the schema registry of the topics")
    command.add_argument("--name", help="the name of the case")
    command.add_argument("--write", type=Path, metavar="FILE", help="write the case to a new file")
    add_loading(command)
    add_carrier(command, "spark")


def record_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """Sample the topics, run the script over the sample, and write the case."""
    # Kafka clients are slow to import.
    from kestrel_qtt.drivers.kafka.mask import Mask
    from kestrel_qtt.drivers.kafka.sample import Sampler, Wishes

    if arguments.write is not None and arguments.write.exists():
        raise SelectionError(f"{arguments.write} exists; --write takes the name of a new file")
    if arguments.salt and not arguments.mask:
        raise SelectionError("--salt has no effect without --mask")
    check_functions(arguments.functions)
    try:
        masks = [Mask.of(text, arguments.salt) for text in arguments.mask]
    except ValueError as error:
        raise SelectionError(f"--mask: {error}") from error
    tell = progress()
    wishes = Wishes(
        servers=arguments.kafka, last=dict(arguments.topic), masks=masks, registry_url=arguments.schema_registry
    )
    case = Sampler(_case(arguments), wishes, tell).sampled()
    with closing(open_driver()) as engine:
        ((_, outcome, _),) = run_group([case], engine, RunOptions())
    (proposal,) = propose([(case, outcome)])
    if proposal.problem:
        raise SelectionError(proposal.problem)
    for warning in proposal.warnings:
        tell(warning)
    folder = Path() if arguments.write is None else arguments.write.parent
    script = os.path.relpath(arguments.app, folder)
    outputs = [parse_json(text) for text in proposal.records]
    text = case_text({**case_document(case), "statements": {"file": Path(script).as_posix()}, "outputs": outputs})
    tell(f"{len(case.inputs)} inputs gave {len(outputs)} outputs")
    if arguments.write is None:
        plain_console().print(text, end="")
    else:
        arguments.write.write_text(text, encoding="utf-8", errors="backslashreplace")
    return ExitCode.OK


def _case(arguments: argparse.Namespace) -> Case:
    """The case without records; raise FileNotFoundError."""
    script: Path = arguments.app
    if not script.is_file():
        raise FileNotFoundError(f"there is no script {script}")
    name = arguments.name or f"recorded from {', '.join(topic for topic, _ in arguments.topic)}"
    return Case(
        id=f"{script}::recorded",
        file=arguments.write or script,
        line=1,
        name=name,
        statements=(script.read_text(encoding="utf-8"),),
        script=script,
        variables=dict(arguments.variable),
        functions=tuple(arguments.functions),
    )


def _last(text: str) -> tuple[str, int]:
    topic, count = pair(text)
    kind, _, number = count.partition(":")
    if kind != "last":
        raise argparse.ArgumentTypeError(f"expected NAME=last:N, such as orders=last:50, got {text!r}")
    return topic, positive(number)
