"""Infers columns from registered schemas, and generates the schemas that sinks register (rules F4 and F8)."""

from __future__ import annotations

from typing import assert_never

from kestrel_sql.errors import FormatError, RegistryError
from kestrel_sql.formats.avro import schema as avro_schema
from kestrel_sql.formats.connect.infer import columns_of_schema
from kestrel_sql.formats.protobuf import schema as proto_schema
from kestrel_sql.formats.registered.languages import LANGUAGES, PROTOBUF_STRUCTS, SchemaLanguage
from kestrel_sql.formats.registry.memory import NO_SCHEMAS, RegisteredSchema, RegistryView, SchemaFormat
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.types.schema import Column


def language_of(name: str) -> SchemaLanguage:
    """Return the schema language of a format.

    Raises:
        FormatError: the format has no schemas.
    """
    language = LANGUAGES.get(name.upper())
    if language is None:
        raise FormatError(f"{name.upper()} does not use schemas of the schema registry")
    return language


def schema_text(columns: tuple[Column, ...], info: FormatInfo, *, unwrapped: bool = False) -> str:
    """Write the schema for the key or value of a sink; `fullSchemaName` of the format names its record.

    Raises:
        FormatError: the format has no schemas, or does not support the columns.
    """
    return language_of(info.format).generate_schema(columns, unwrapped, info)


def generated_schema(spec: SerdeSpec) -> RegisteredSchema:
    """Return the schema generated from a spec's columns, with id 0, which no registry assigns.

    Raises:
        FormatError: the format has no schemas, or does not support the columns.
    """
    language = language_of(spec.format.format)
    return RegisteredSchema(0, language.format, schema_text(spec.columns, spec.format, unwrapped=spec.unwrapped))


def columns_of(
    schema: RegisteredSchema,
    side: Side,
    *,
    full_name: str | None = None,
    unwrapped: bool = False,
    unwrap_primitives: bool = True,
    keep_case: bool = False,
    view: RegistryView = NO_SCHEMAS,
) -> tuple[Column, ...] | None:
    """Return the columns of a schema for a CREATE without columns; None if the schema has no definition `full_name`.

    `view` resolves imports of the schema. Only PROTOBUF schemas may have several definitions, and wrapper messages,
    which are structs without `unwrap_primitives`.

    Raises:
        RegistryError: there are several definitions and none is selected, or no field is supported.
        FormatError: the text is not a schema of its language.
    """
    language = next(each for each in LANGUAGES.values() if each.format is schema.format)
    imports = view.imports_of(schema)
    if schema.format is SchemaFormat.PROTOBUF:
        names = proto_schema.load(schema.text, imports).names
        if full_name is not None and full_name not in names:
            return None
        _check_definitions(names, side, full_name)
        language = language if unwrap_primitives else PROTOBUF_STRUCTS
    connect = language.open_codec(schema.text, imports, full_name).schema
    return columns_of_schema(connect, side, unwrapped=language.is_unwrapped(connect, unwrapped), keep_case=keep_case)


def _check_definitions(names: list[str], side: Side, full_name: str | None) -> None:
    if full_name is None and len(names) > 1:
        raise RegistryError(
            f"{side.value.capitalize()} schema has multiple schema definitions. {names}. "
            f"Please specify a schema full name in the WITH clause using {side.name}_SCHEMA_FULL_NAME"
        )


def full_name_of(schema: RegisteredSchema, view: RegistryView = NO_SCHEMAS) -> str | None:
    """Return the full name of a schema's record or first message; None for bare types and JSON schemas.

    Raises:
        FormatError: the text is not a schema of its language.
    """
    imports = view.imports_of(schema)
    match schema.format:
        case SchemaFormat.AVRO:
            resolved = avro_schema.parse_text(schema.text, imports)
            return str(resolved["name"]) if isinstance(resolved, dict) and resolved.get("type") == "record" else None
        case SchemaFormat.PROTOBUF:
            return next(iter(proto_schema.load(schema.text, imports).names), None)
        case SchemaFormat.JSON:
            return None
        case other:
            assert_never(other)
