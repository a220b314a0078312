"""The cases of `test-cases/front-doors` through `kestrel serve` on a broker, all on one server.

With every change it is one in three of those of pull queries and of INSERT VALUES, chosen by a hash of the ids, and all
others: push queries, statements that control queries, a query of each kind, partitions, scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

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


SHARED = ("insert-values.rest.yaml", "pull.rest.yaml")
"""Files of many cases that differ in what is asked, less in how a server on a broker comes by the answer."""
EVERY = 3


def cases() -> list[Case]:
    loaded = load_all(find_files([ROOT / "test-cases" / "front-doors"]))
    assert not loaded.errors
    found = [case for case in loaded.cases if not isinstance(case, ScriptCase)]
    return [case for case in found if not (isinstance(case, RestCase) and case.prints)]


def share(found: list[Case]) -> list[Case]:
    return [case for case in found if case.file.name not in SHARED or crc32(case.id.encode()) % EVERY == 0]


@pytest.mark.rules("R9.9")
@pytest.mark.parametrize("is_share", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_cases_of_the_front_doors_pass_on_a_broker(driver: Driver, *, is_share: bool) -> None:
    chosen = share(cases()) if is_share else cases()
    results = list(run_cases(chosen, driver, RunOptions()))
    failed = [f"{r.case.id}: {r.status} {r.reason}" for r in results if r.status is not Status.PASSED]
    assert not failed, "\n".join(failed)
    assert len(results) == len(chosen)


def test_the_share_has_cases_of_every_file() -> None:
    chosen = share(cases())
    assert {case.file for case in chosen} == {case.file for case in cases()}
    assert 20 < len(chosen) < len(cases())
