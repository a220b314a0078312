"""The option that names a schema registry, and the registry that it means."""

from __future__ import annotations

import argparse

from kestrel_sql.errors import EngineError
from kestrel_sql.formats.registry.memory import MemoryRegistry, MissingRegistry, SchemaRegistry

MEMORY = "memory"
"""What stands for a schema registry that lives as long as the topics in memory."""
REGISTRY = "ksql.schema.registry."


def add_registry_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that names a schema registry."""
    registry = (
        "a Confluent schema registry; its settings are properties such as ksql.schema.registry.basic.auth.user.info."
        f" {MEMORY} makes one for topics in memory"
    )
    parser.add_argument("--schema-registry", metavar="URL", help=registry)


def memory_registry_of(arguments: argparse.Namespace) -> SchemaRegistry:
    """The registry of the options for topics in memory (rule F8.17)."""
    return MemoryRegistry() if arguments.schema_registry == MEMORY else registry_of(arguments)


def registry_of(arguments: argparse.Namespace) -> SchemaRegistry:
    """The registry of the options; without a URL, one that refuses whatever needs a schema (rule F8.17).

    The ids in the records of a topic are those of the registry that its writers use. Any other registry decodes them
    with other schemas.
    """
    settings = {name: value for name, value in arguments.set if name.startswith(REGISTRY)}
    if arguments.schema_registry == MEMORY:
        raise EngineError(
            f"--schema-registry {MEMORY} is for topics in memory", hint="name the registry that the topics' writers use"
        )
    if arguments.schema_registry is not None:
        from kestrel_sql.formats.registry.remote import open_registry

        return open_registry(arguments.schema_registry, settings)
    if settings:
        raise EngineError(f"{min(settings)} is a setting of a schema registry", hint="--schema-registry URL says which")
    return MissingRegistry()
