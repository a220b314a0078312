"""The command `qtt schema`: print the JSON schema of case files."""

from __future__ import annotations

import argparse
import sys

from kestrel_qtt.cases.schema import schema_text
from kestrel_qtt.cli.run import ExitCode, OpenDriver, add_command, plain_console

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
