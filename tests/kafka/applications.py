"""Runs applications in the process of the tests, with one Spark session, one broker, real topics and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pyspark.sql import SparkSession

from kestrel_sql.admin.answer import Answer
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.broker_session import SESSION
from kestrel_sql.kafka.run.progress import QueryState
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.session import open_test_session

_STOP_S, _LOOK_S = 60.0, 0.2


def production_session() -> SparkSession:
    """A session with the settings of `kestrel run`, in the JVM of all tests.

    Expressions are interpreted, which is faster for few rows.
    """
    spark = open_test_session().newSession()
    for name, value in {**SESSION, "spark.sql.shuffle.partitions": "2"}.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


@dataclass(slots=True)
class Run:
    """The output of a run so far: messages to the user with errors (`said`), what it does (`reported`), and `answers`."""

    said: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    states: dict[str, QueryState] = field(default_factory=dict)
    stop: Event = field(default_factory=Event)
    ended: Event = field(default_factory=Event)
    well: bool = False
    """Whether it ended without an error."""

    @property
    def text(self) -> str:
        """All messages as one line."""
        return " ".join(" ".join(self.said).split())

    def await_(self, happened: Callable[[], object], seconds: float = 120, pause: float = _LOOK_S) -> None:
        """Wait until a condition holds while the run continues."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert not self.ended.is_set(), f"the run ended; it said: {self.said}"
            assert time.monotonic() < deadline, f"{happened} does not happen; the run said: {self.said}"
            time.sleep(pause)

    def await_said(self, words: str, seconds: float = 120) -> None:
        """Wait until a message of the run contains these words."""
        self.await_(lambda: words in self.text, seconds)


@dataclass(frozen=True, slots=True)
class Applications:
    """Runs scripts against a broker in a shared Spark session; `settings` are fields of RunSettings."""

    spark: SparkSession
    config: KafkaConfig

    def catch_up(
        self,
        text: str,
        checkpoint: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_topic: str | None = None,
        **settings: Any,
    ) -> Run:
        """Run until every query has read all records of its topics, as with `kestrel run --until-caught-up`."""
        run = Run()
        self._application(run, checkpoint, properties, log_topic, {"until_caught_up": True, **settings}, text)
        return run

    @contextmanager
    def running(
        self,
        text: str,
        checkpoint: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_topic: str | None = None,
        **settings: Any,
    ) -> Iterator[Run]:
        """Run until the block ends, in a thread."""
        run = Run()
        arguments = (run, checkpoint, properties, log_topic, settings, text)
        thread = Thread(target=self._application, args=arguments, daemon=True)
        thread.start()
        try:
            yield run
        finally:
            run.stop.set()
            thread.join(_STOP_S)
            assert not thread.is_alive(), f"the run does not end; it said: {run.said}"

    def _application(
        self,
        run: Run,
        checkpoint: Path,
        properties: Mapping[str, str] | None,
        log_topic: str | None,
        settings: Mapping[str, Any],
        text: str,
    ) -> None:
        application = Application(
            settings=RunSettings(**{"config": self.config, "checkpoint": checkpoint, **settings}),
            session=Session(config=Config.of(properties or {})),
            log_topic=log_topic,
            say=run.said.append,
            report=run.reported.append,
            show=lambda states: run.states.update({state.query: state for state in states}),
            answer=run.answers.append,
            stop=run.stop,
            open_spark=lambda *_: self.spark,
            close_spark=lambda _: None,
        )
        try:
            run.well = application.run(text)
        except EngineError as error:
            run.said.append(error.render())
        finally:
            run.ended.set()
