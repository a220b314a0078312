"""The command `qtt watch`: run cases again when a file that they need is saved."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import msgspec
from rich.console import Console

from kestrel_qtt.cases.counts import count_of
from kestrel_qtt.cases.model import Case, Result, Status
from kestrel_qtt.cli.run import (
    ExitCode,
    OpenDriver,
    add_carrier,
    add_command,
    add_selection,
    load_cases,
    plain_console,
    selection_of,
)
from kestrel_qtt.drivers.driver import PlanningDriver, RunOptions
from kestrel_qtt.drivers.functions import forget_functions
from kestrel_qtt.load import Loaded
from kestrel_qtt.report.text import coloured, failure_text, summarise, watched
from kestrel_qtt.runner import run_cases

INTERVAL = 0.3
"""Seconds between two checks of the files."""

State = Mapping[Path, tuple[int, int] | None]


class Watch(msgspec.Struct):
    """Runs the cases of the arguments again whenever a file changes; `wait` returns when it is time for a check."""

    arguments: argparse.Namespace
    open_driver: OpenDriver
    out: Console
    wait: Callable[[], None]
    failing: dict[str, Result] = {}
    errors: int = 0

    def run(self) -> None:
        """Run all cases, then those that a saved file touches, until KeyboardInterrupt."""
        with closing(self.open_driver()) as engine:
            loaded = self._load()
            seen = state_of(files_of(loaded, self.arguments))
            self._run(loaded, selection_of(self.arguments).of(loaded.cases), engine)
            while True:
                self.wait()
                now = state_of([*files_of(loaded, self.arguments), *seen])
                changed = {path for path in now if now[path] != seen.get(path)}
                if not changed:
                    continue
                if changed & {path.resolve() for path in self.arguments.functions}:
                    forget_functions()
                loaded = self._load()
                found = state_of(files_of(loaded, self.arguments))
                changed |= found.keys() - now.keys()
                seen = {**now, **found}
                cases = selection_of(self.arguments).of(loaded.cases)
                self._run(loaded, touched(cases, changed, self.arguments), engine)

    def _load(self) -> Loaded:
        loaded = load_cases(self.arguments)
        self.errors = len(loaded.errors)
        for error in loaded.errors:
            self.out.print(f"ERROR {error}")
        known = {case.id for case in loaded.cases}
        self.failing = {name: result for name, result in self.failing.items() if name in known}
        return loaded

    def _run(self, loaded: Loaded, cases: list[Case], engine: PlanningDriver) -> None:
        """Run cases; those that failed last time come first."""
        started = time.perf_counter()
        cases = sorted(cases, key=lambda case: case.id not in self.failing)
        results = []
        running = run_cases(cases, engine, RunOptions(), gaps=loaded.gaps)
        for result in watched(running, len(cases), Console(stderr=True)):
            results.append(result)
            self.failing.pop(result.case.id, None)
            if result.status in (Status.FAILED, Status.ERROR):
                self.failing[result.case.id] = result
                self.out.print(coloured(failure_text(result)))
        ran = str(summarise(results, time.perf_counter() - started)).partition("\n")[0]
        summary = ran if results else "no case to run"
        others = len(self.failing) - sum(result.case.id in self.failing for result in results)
        still = f"; {others} more failed before" if others else ""
        files = sum(path.is_file() for path in state_of(files_of(loaded, self.arguments)))
        self.out.print(f"{summary}{still}; watching {files} files, Ctrl-C ends")


def files_of(loaded: Loaded, arguments: argparse.Namespace) -> list[Path]:
    """The files that the cases are read from: case files, scripts, inputs, functions, and files with errors."""
    paths = [path for case in loaded.cases for path in case_files(case)]
    return [*paths, *(error.file for error in loaded.errors), *arguments.functions, *_below(arguments.paths)]


def case_files(case: Case) -> set[Path]:
    """The files that one case is made of."""
    named = {case.file, case.script, *(record.file for record in case.inputs)}
    return {path for path in named if path is not None}


def _below(paths: Iterable[Path]) -> list[Path]:
    """Return the given folders and all folders below; the time of a folder changes with the names in it."""
    folders = [path for path in paths if path.is_dir()]
    return [*folders, *(below for folder in folders for below in folder.rglob("*") if below.is_dir())]


def state_of(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """Return the time and size of each file; None if it is gone."""
    states: dict[Path, tuple[int, int] | None] = {}
    for path in {path.resolve() for path in paths}:
        try:
            found = path.stat()
            states[path] = found.st_mtime_ns, found.st_size if path.is_file() else 0
        except OSError:
            states[path] = None
    return states


def touched(cases: Iterable[Case], changed: set[Path], arguments: argparse.Namespace) -> list[Case]:
    """Return the cases that need a changed file; all of them if functions have changed."""
    if changed & {path.resolve() for path in arguments.functions}:
        return list(cases)
    return [case for case in cases if changed & {path.resolve() for path in case_files(case)}]


def pause() -> None:
    """Wait until the next check of the files."""
    time.sleep(INTERVAL)


def add_watch(commands: argparse._SubParsersAction[argparse.ArgumentParser], examples: str) -> None:
    """Declare `qtt watch`."""
    text = "run cases, and again whenever a file that they need is saved"
    command = add_command(commands, "watch", text, examples, watch_command)
    add_selection(command)
    add_carrier(command, "process")


def watch_command(arguments: argparse.Namespace, open_driver: OpenDriver) -> ExitCode:
    """`qtt watch`: run until Ctrl-C; the exit code says whether a case fails then."""
    watch = Watch(arguments, open_driver, plain_console(), pause)
    try:
        watch.run()
    except KeyboardInterrupt:
        failing = len(watch.failing)
        watch.out.print(f"{count_of(failing, 'case')} fail{'s' * (failing == 1)}", highlight=False)
    return ExitCode.FAILURES if watch.failing or watch.errors else ExitCode.OK
