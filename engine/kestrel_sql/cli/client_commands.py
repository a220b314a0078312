"""Runs the commands that ksqlDB's prompt keeps to itself: HELP, RUN SCRIPT, VERSION, SET CLI and EXIT (rules R15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from rich.text import Text

from kestrel_sql.cli.render import Display, show_error
from kestrel_sql.errors import EngineError, StatementError
from kestrel_sql.plan.codec.plan_file import engine_version
from kestrel_sql.sql.parse.parser import statements_of
from kestrel_sql.sql.parse.tokens import StatementTokens, span_of
from kestrel_sql.sql.script_files import read_script, run_script, statement_text, words_of

HELP = """Statements of ksqlDB: CREATE STREAM|TABLE … [AS SELECT …], INSERT INTO …, SELECT … [EMIT CHANGES] [LIMIT n],
SHOW STREAMS|TABLES|TOPICS|QUERIES|FUNCTIONS|…, DESCRIBE name [EXTENDED], EXPLAIN …, PRINT topic, DROP …,
SET 'property' = 'value'.
RUN SCRIPT 'file' executes the statements of a file, VERSION says which Kestrel this is,
SET CLI COLUMN-WIDTH n and SET CLI WRAP ON|OFF change how tables look.
A push query (EMIT CHANGES) shows what its sources hold now and ends.
Tab completes what fits: sources after FROM, columns after SELECT, properties in WITH.
The arrow keys go back to earlier statements, Ctrl-R searches them.
Ctrl-C gives up a statement or stops a query, exit or Ctrl-D leaves."""

_LEAVING = (["EXIT"], ["QUIT"])


class OnError(StrEnum):
    """What an error of a statement means for those after it."""

    STOP = "stop"
    CONTINUE = "continue"


class Leave(Exception):  # noqa: N818 - no error
    """EXIT or QUIT: no further statement runs."""


class ClientCommands(msgspec.Struct, frozen=True):
    """Executes texts statement by statement.

    Attributes:
        run: executes the text of one statement, which stands at its place in the whole text; returns whether it went
            well.
        display: what SET CLI changes and VERSION writes to.
        on_error: whether the statements after one that failed run.
    """

    run: Callable[[str], bool]
    display: Display
    on_error: OnError = OnError.STOP

    def execute(self, text: str, folder: Path, running: tuple[Path, ...] = ()) -> bool:
        """Execute the statements of a text as they come, and return whether all went well.

        Paths are relative to `folder`, `running` holds the scripts around it.

        Raises:
            Leave: the text has EXIT or QUIT.
        """
        well = True
        for piece in statements_of(text):
            well = self._execute(piece, text, folder, running) and well
            if not well and self.on_error is OnError.STOP:
                return False
        return well

    def execute_files(self, files: Sequence[Path]) -> bool:
        """Execute scripts one after the other, up to EXIT, and return whether all went well.

        Raises:
            StatementError: a script cannot be read.
        """
        well = True
        try:
            for file in files:
                well = self._script(file, read_script(file), (), is_named=len(files) > 1) and well
                if not well and self.on_error is OnError.STOP:
                    break
        except Leave:
            pass
        return well

    def _execute(self, piece: StatementTokens, text: str, folder: Path, running: tuple[Path, ...]) -> bool:
        words = words_of(piece)
        if words in _LEAVING:
            raise Leave
        try:
            match words:
                case ["HELP"]:
                    self.display.say(HELP)
                case ["VERSION"]:
                    self.display.say(f"Version: {engine_version()}")
                case ["RUN", "SCRIPT", "STRING_VALUE"]:
                    return self._run_script(piece, folder, running)
                case ["SET", "CLI", *setting]:
                    self._set(setting, piece)
                case _:
                    return self.run(statement_text(piece))
        except EngineError as error:
            error.span = error.span or span_of(piece.tokens[-1])
            show_error(self.display.notes, error, text)
            return False
        return True

    def _run_script(self, piece: StatementTokens, folder: Path, running: tuple[Path, ...]) -> bool:
        file, text = run_script(piece, folder, running)
        return self._script(file, text, running, is_named=True)

    def _script(self, file: Path, text: str, running: tuple[Path, ...], *, is_named: bool) -> bool:
        real = file.resolve()
        done = self.execute(text, real.parent, (*running, real))
        if not done and is_named:
            self.display.notes.print(Text(f"  in the script {file}", "red"), soft_wrap=True)
        return done

    def _set(self, setting: list[str], piece: StatementTokens) -> None:
        value = piece.tokens[-1]
        match setting:
            case ["COLUMN", "MINUS", "WIDTH", "INTEGER_VALUE"]:
                self.display.width = int(value)
            case ["WRAP", "ON" | "OFF" | "STRING_VALUE" | "IDENTIFIER"] if value.strip("'").upper() in ("ON", "OFF"):
                self.display.wraps = value.strip("'").upper() == "ON"
            case _:
                raise StatementError(
                    f"unknown setting of the command line: {piece.text.rstrip(';')}",
                    hint="SET CLI COLUMN-WIDTH 20, where 0 fits columns to their values, or SET CLI WRAP ON or OFF",
                )
