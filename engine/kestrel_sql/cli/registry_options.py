"""The option that names a schema registry, and the registry that it means."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from kestrel_sql.cli.usage import pairs_of
from kestrel_sql.errors import EngineError, unreadable
from kestrel_sql.formats.registry.memory import MemoryRegistry, MissingRegistry, SchemaFormat, SchemaRegistry

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
    schema = (
        f"without a registry, the schema of a subject, as in t-value=t.avsc ({_suffixes()}); for topics in memory; may"
        " be repeated"
    )
    parser.add_argument("--schema", **pairs_of("SUBJECT=FILE", _schema_file), help=schema)


_LANGUAGES: Mapping[str, SchemaFormat] = {
    ".avsc": SchemaFormat.AVRO,
    ".proto": SchemaFormat.PROTOBUF,
    ".json": SchemaFormat.JSON,
}


def _suffixes() -> str:
    return ", ".join(f"{suffix} is {language.value}" for suffix, language in _LANGUAGES.items())


def _schema_file(name: str) -> Path:
    file = Path(name)
    if file.suffix.lower() not in _LANGUAGES:
        raise argparse.ArgumentTypeError(f"{file}: {_suffixes()}")
    return file


def memory_registry_of(arguments: argparse.Namespace) -> SchemaRegistry:
    """The registry of the options for topics in memory (rule F8.17), with the schemas of their files.

    Raises:
        EngineError: a file cannot be read, or there is a registry, which has schemas of its own.
    """
    if not arguments.schema:
        return MemoryRegistry() if arguments.schema_registry == MEMORY else registry_of(arguments)
    if arguments.schema_registry not in (None, MEMORY):
        raise EngineError("--schema has no effect beside --schema-registry, which has the schemas")
    registry = MemoryRegistry()
    for subject, file in arguments.schema:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise EngineError(f"{file} cannot be read: {unreadable(error)}") from error
        registry.register(subject, _LANGUAGES[file.suffix.lower()], text)
    return registry


def registry_of(arguments: argparse.Namespace) -> SchemaRegistry:
    """The registry of the options; without a URL, one that refuses whatever needs a schema (rule F8.17).

    The ids in the records of a topic are those of the registry that its writers use. Any other registry decodes them
    with other schemas.
    """
    settings = {name: value for name, value in arguments.set if name.startswith(REGISTRY)}
    if arguments.schema:
        raise EngineError(
            "--schema is for topics in memory: the records of a broker begin with ids that only their registry knows",
            hint="--schema-registry URL names it",
        )
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
