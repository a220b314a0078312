"""An application up to the moment when Spark would start: statements carried out, topics made, queries checked."""

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
    """Spark would have started now."""


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
    """Do all that comes before Spark; give what the statements answered."""
    answers: list[Answer] = []
    run = application(config, checkpoint, answers, [])
    if " AS SELECT " in text:
        with pytest.raises(NotStartedError):
            run.run(text)
    else:
        assert run.run(text)
    return answers
