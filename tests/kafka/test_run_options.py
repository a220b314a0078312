from __future__ import annotations

import argparse

import pytest

from engine.cli_run import _registry, add_kafka_options
from engine.errors import EngineError
from engine.formats.registry import MemoryRegistry
from engine.formats.registry_remote import RemoteRegistry


def options(*words: str, settings: tuple[tuple[str, str], ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_kafka_options(parser)
    return parser.parse_args([*words], argparse.Namespace(set=list(settings)))


def test_the_registry_is_that_of_the_url() -> None:
    settings = (("ksql.schema.registry.basic.auth.user.info", "me:secret"), ("auto.offset.reset", "earliest"))
    found = _registry(options("--schema-registry", "http://localhost:1", settings=settings))
    assert isinstance(found, RemoteRegistry)
    assert "secret" not in repr(found)


def test_without_a_url_the_registry_is_in_memory() -> None:
    assert isinstance(_registry(options(settings=(("auto.offset.reset", "earliest"),))), MemoryRegistry)


def test_settings_without_a_registry_are_refused() -> None:
    with pytest.raises(EngineError, match=r"ksql\.schema\.registry\.timeout is a setting of a schema registry"):
        _registry(options(settings=(("ksql.schema.registry.timeout", "5"),)))
