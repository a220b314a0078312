"""The reference of the commands, docs/commands.md, made of what their parsers say.

python -m tests.commands            (writes it anew)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from kestrel_qtt.cli import main as qtt
from kestrel_sql.cli import main as kestrel

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = """# Commands

`python -m tests.commands` writes this page from what the commands say with `--help`.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for parser in (qtt.build_parser(), kestrel.build_parser(*kestrel.COMMANDS)):
        parts += [f"## {parser.prog}\n", *commands(parser)]
        parts += [f"```\n{(parser.epilog or '').strip()}\n```\n"]
    return "\n".join(parts)


def commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The section of each command, and of each command below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield f"### {command.prog}\n"
                text = sentence(helps[name])
                yield f"{text[0].upper()}{text[1:]}.\n"
                yield from options(command)
                yield from commands(command)


def options(command: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        f"| `{spelled(action)}` | {cell((action.help or '') % vars(action))} |"
        for action in command._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        and action.help is not argparse.SUPPRESS
    ]
    if rows:
        yield "\n".join(["| Argument | Meaning |", "|---|---|", *rows, ""])


def spelled(action: argparse.Action) -> str:
    """An argument as it is written, with the names of its values."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = action.metavar or choices or action.dest.upper()
    values = " ".join(value) if isinstance(value, tuple) else value
    names = ", ".join(action.option_strings)
    text = values if not names else names if action.nargs == 0 else f"{names} {values}"
    return text.replace("|", "\\|")


def cell(text: str) -> str:
    return sentence(text).replace("|", "\\|")


def sentence(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
