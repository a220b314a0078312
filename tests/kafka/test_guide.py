"""The commands of docs/leaving-ksqldb.md do what the page says, on ksqlDB's own server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kestrel_sql.kafka.broker.broker import HOST
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import environment
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.processes import ending
from tests.kafka.servers import Server, eventually, free_port

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "leaving-ksqldb.md").read_text(encoding="utf-8")
PART = re.compile(r"```(\w+)\n(.*?)```|<!-- (.*?) -->", re.DOTALL)
STEP = re.compile(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?:--|#) (\S+)\n")
SERVICE = "shop_"
FEED = "INSERT INTO orders VALUES ('1', 'ann', 120); INSERT INTO orders VALUES ('2', 'bob', 20);"


def parts() -> Iterator[tuple[str, str]]:
    """Each block of the page with its language, and each mark for the test."""
    for language, block, mark in PART.findall(PAGE):
        yield (language, block) if language else ("mark", mark)


class Reader:
    """Does what a reader of the page does, in a folder, with a broker and a server of ksqlDB."""

    def __init__(self, servers: str, folder: Path, stack: ExitStack) -> None:
        self._servers, self._folder, self._stack = servers, folder, stack
        self._ksqldb = start_ksqldb(servers, SERVICE, folder, stack)
        self._server = self._ksqldb
        eventually(self._ksqldb.is_up, self._ksqldb)

    def write(self, block: str) -> None:
        """Write the file that the first line of a block names; ksqlDB runs the script."""
        name = NAMED.match(block)
        assert name is not None, block
        file = self._folder / name[1]
        file.parent.mkdir(exist_ok=True)
        file.write_text(block, encoding="utf-8")
        if file.suffix == ".sql":
            self._ksqldb.ksql(block + FEED)

    def stop(self) -> None:
        self._ksqldb.end()

    def run(self, command: str, shown: str) -> None:
        """Run a command and compare what it prints; a server is started, and goes on."""
        command = command.replace("localhost:9092", self._servers).replace("http://localhost:8088", self._server.url)
        words = shlex.split(command)
        if words[:2] == ["kestrel", "serve"]:
            printed = self._serve([*words, "--listen", f"{HOST}:{free_port()}"], shown)
        else:
            tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            done = subprocess.run(
                command,
                shell=True,
                cwd=self._folder,
                env={**environment(), "PATH": tools},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
            printed = done.stdout
        assert matches(shown, printed), f"{command} printed\n{printed}"

    def _serve(self, words: list[str], shown: str) -> str:
        log = self._folder / "serve.log"
        with log.open("wb") as out:
            command = [sys.executable, "-m", "kestrel_sql.cli.main", *words[1:]]
            process = subprocess.Popen(command, cwd=self._folder, stdout=out, stderr=out, env=environment())
        self._stack.enter_context(ending(process))
        self._server = Server(f"http://{words[-1]}", log.read_text, lambda: process.poll() is None, process.terminate)
        eventually(lambda: matches(shown, log.read_text(encoding="utf-8")), self._server)
        return log.read_text(encoding="utf-8")

    def ends_right(self) -> None:
        """Wait until the table has the order that came after the take-over."""
        eventually(lambda: ["ann", 2, 320.0] in self._server.query("SELECT * FROM spent;"), self._server)


def matches(shown: str, printed: str) -> bool:
    wanted = r"[\s\S]*?".join(re.escape(part.strip("\n")) for part in shown.split("…"))
    return re.search(wanted, printed) is not None


def test_a_service_is_moved_as_the_page_says(kafka: KafkaConfig, tmp_path: Path) -> None:
    needs_ksqldb()
    with ExitStack() as stack:
        reader = Reader(kafka.servers, tmp_path, stack)
        for language, block in parts():
            if language == "console":
                for command, shown in STEP.findall(block):
                    reader.run(command, shown)
            elif language == "mark":
                assert block == "stop ksqlDB"
                reader.stop()
            else:
                reader.write(block)
        reader.ends_right()
