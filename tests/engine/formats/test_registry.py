from __future__ import annotations

import pytest

from kestrel_sql.errors import RegistryError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaFormat


@pytest.mark.rules("Q4.3")
def test_equal_schemas_share_an_id() -> None:
    registry = MemoryRegistry()
    assert registry.register("a", SchemaFormat.AVRO, '{"type": "int"}') == 1
    assert registry.register("b", SchemaFormat.AVRO, '{ "type":"int" }') == 1
    assert registry.register("b", SchemaFormat.AVRO, '"long"') == 2
    assert registry.register("c", SchemaFormat.JSON, '{"type": "int"}') == 3
    latest = registry.latest("b")
    assert latest is not None
    assert latest.text == '"long"'
    assert registry.latest("nothing") is None
    assert registry.subjects() == ("a", "b", "c")


def test_a_subject_keeps_its_id_of_a_schema_shared_with_others() -> None:
    registry = MemoryRegistry()
    registry.register("a", SchemaFormat.AVRO, '"int"', schema_id=101)
    registry.register("b", SchemaFormat.AVRO, '"int"', schema_id=201)
    assert registry.register("b", SchemaFormat.AVRO, '"int"') == 201
    assert registry.register("c", SchemaFormat.AVRO, '"int"') == 101


def test_registering_an_old_version_again_does_not_make_it_the_latest() -> None:
    registry = MemoryRegistry()
    registry.register("a", SchemaFormat.AVRO, '"int"')
    registry.register("a", SchemaFormat.AVRO, '"long"')
    assert registry.register("a", SchemaFormat.AVRO, '"int"') == 1
    assert registry.snapshot().versions == {("a", 1): 1, ("a", 2): 2}
    assert registry.snapshot().latest == {"a": 2}


def test_explicit_ids() -> None:
    registry = MemoryRegistry()
    assert registry.register("a", SchemaFormat.AVRO, '"int"', schema_id=102) == 102
    assert registry.register("b", SchemaFormat.AVRO, '"int"') == 102
    with pytest.raises(RegistryError, match="taken"):
        registry.register("a", SchemaFormat.AVRO, '"long"', schema_id=102)
    registry.delete("a")
    assert registry.latest("a") is None
    assert registry.by_id(102) is not None
