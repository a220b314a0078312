"""A run waits for a schema registry that is away as long as for a broker."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from kestrel_sql.errors import CheckpointError, RegistryUnavailableError
from kestrel_sql.kafka.run import run
from kestrel_sql.kafka.run.resume import NamedQuery
from kestrel_sql.kafka.run.run import ProductionRun, until_registry
from kestrel_sql.session.session import Session


def away(times: int) -> Callable[[], str]:
    left = iter(range(times))

    def ask() -> str:
        if next(left, None) is not None:
            raise RegistryUnavailableError("The schema registry at r did not answer")
        return "schema"

    return ask


def test_what_asks_the_registry_is_done_again_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "AWAY_S", 0.0)
    said: list[str] = []
    assert until_registry(away(5), 60, said.append, Event()) == "schema"
    assert said == ["The schema registry at r did not answer; waiting for it up to 60 s"]


@pytest.mark.parametrize(("patience", "stopped"), [(-1.0, False), (60.0, True)])
def test_the_wait_ends_with_the_patience_or_the_run(patience: float, stopped: bool) -> None:
    stop = Event()
    if stopped:
        stop.set()
    with pytest.raises(RegistryUnavailableError):
        until_registry(away(1), patience, lambda _: None, stop)


def test_an_error_of_a_start_names_the_query_and_the_place_of_its_statement() -> None:
    text = (
        "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');\n"
        "CREATE STREAM o AS\n  SELECT * FROM s;"
    )
    session = Session()
    _, parsed = session.parse(text)
    for each in session.parse(text):
        session.execute(each)
    (query,) = session.queries.values()
    production = ProductionRun.__new__(ProductionRun)
    production.written, production.refused = {query.id: parsed}, None

    def refuse() -> None:
        with production._about(NamedQuery(name="CREATE STREAM O", query=query, replaces=False)):
            raise CheckpointError("the checkpoint has other operators")

    with pytest.raises(CheckpointError) as caught:
        refuse()
    assert production.refused is parsed
    assert caught.value.render(text).splitlines() == [
        "CHECKPOINT at 2:1: CSAS_O_0: the checkpoint has other operators",
        "    CREATE STREAM o AS",
        "    ^^^^^^^^^^^^^^^^^^",
    ]
