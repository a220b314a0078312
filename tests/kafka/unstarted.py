"""Runs an application up to the start of Spark: executes statements, creates topics, checks queries."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.admin.answer import Answer
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session


class NotStartedError(Exception):
    """Raised where Spark would start."""


def _not_started(*_: object) -> SparkSession:
    raise NotStartedError


def application(
    config: KafkaConfig, checkpoint: Path, answers: list[Answer], told: list[str], patience: float = 5.0
) -> Application:
    return Application(
        settings=RunSettings(config=config, checkpoint=checkpoint, patience=patience),
        session=Session(config=Config.of({})),
        log_topic=None,
        say=told.append,
        show=lambda _: None,
        answer=answers.append,
        stop=Event(),
        open_spark=_not_started,
    )


def execute(config: KafkaConfig, checkpoint: Path, text: str) -> list[Answer]:
    """Do all work before Spark starts; return the answers of statements."""
    answers: list[Answer] = []
    run = application(config, checkpoint, answers, [])
    if " AS SELECT " in text:
        with pytest.raises(NotStartedError):
            run.run(text)
    else:
        assert run.run(text)
    return answers
