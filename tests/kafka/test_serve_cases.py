"""The cases of `test-cases/front-doors` through `kestrel serve` on a broker: one server, one broker, all cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.cases.model import Case, Status
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.drivers.open import open_server_driver
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_qtt.load import load_all
from kestrel_qtt.runner import run_cases
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.spread import ROOT

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def driver(kafka: KafkaConfig) -> Iterator[Driver]:
    opened = open_server_driver(kafka.servers)
    yield opened
    opened.close()


def cases() -> list[Case]:
    loaded = load_all(find_files([ROOT / "test-cases" / "front-doors"]))
    assert not loaded.errors
    found = [case for case in loaded.cases if not isinstance(case, ScriptCase)]
    return [case for case in found if not (isinstance(case, RestCase) and case.is_of_the_shell)]


@pytest.mark.rules("R9.9")
def test_every_case_of_the_front_doors_passes_on_a_broker(driver: Driver) -> None:
    results = list(run_cases(cases(), driver, RunOptions()))
    failed = [f"{r.case.id}: {r.status} {r.reason}" for r in results if r.status is not Status.PASSED]
    assert not failed, "\n".join(failed)
    assert len(results) > 50
