"""Chooses the formats of sources, sinks and internal topics, and checks that they can hold the columns."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import FormatError, PropertyError
from kestrel_sql.formats.format import Format, column_list
from kestrel_sql.formats.properties import FULL_NAME, SCHEMA_ID, UNWRAP_PRIMITIVES
from kestrel_sql.formats.table import check_properties, format_of
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.properties.with_clause import SerdeProperties, SinkProperties, SourceProperties
from kestrel_sql.types.schema import Column, Schema

KEY_SCHEMA_NAMESPACE = "io.confluent.ksql.avro_schemas"


def key_schema_name(source: str) -> str:
    """Return the name of the Avro record for the keys of a stream or table; every source has its own."""
    camel = "".join(part[:1].upper() + part[1:].lower() for part in source.split("_"))
    return f"{KEY_SCHEMA_NAMESPACE}.{camel}Key"


def source_formats(name: str, properties: SourceProperties, schema: Schema, config: Config) -> Formats:
    """Choose the formats of the source `name`, and check that they can hold its schema.

    Raises:
        PropertyError: a format is missing, or WRAP_SINGLE_VALUE does not apply.
        FormatError: a format does not have a property, or cannot hold the schema.
    """
    key, value = source_format_infos(name, properties, config)
    return _formats(key, value, schema, properties.wrap_single_value, config)


def source_format_infos(name: str, properties: SourceProperties, config: Config) -> tuple[FormatInfo, FormatInfo]:
    """Choose the key and value format of a source, which needs no schema.

    Raises:
        PropertyError: the statement names no format and the configuration has no default.
        FormatError: a format is unknown or does not have a property.
    """
    key = _required(properties.key.format or config.default_key_format, "key")
    value = _required(properties.value.format or config.default_value_format, "value")
    check_schema_id("KEY", key, properties.key)
    check_schema_id("VALUE", value, properties.value)
    return (
        _format_info(key, dict(properties.key.properties), key_of=name),
        _format_info(value, dict(properties.value.properties)),
    )


def sink_formats(
    properties: SinkProperties,
    leftmost: Source,
    schema: Schema,
    config: Config,
    *,
    sink: str,
    partitioned_by_null: bool = False,
) -> Formats:
    """Choose the formats of the sink of a CREATE AS, and check that they can hold the result's schema.

    A format that the statement does not name comes from the left-most source. If the format is that of the source, its
    inheritable properties come along (rules F7), but never the wrapping of single values.

    Raises:
        PropertyError: WRAP_SINGLE_VALUE does not apply, or the result needs a default key format and there is none.
        FormatError: PARTITION BY NULL with a key format, or a format that lacks a property or cannot hold the schema.
    """
    key = _sink_key(properties, leftmost, schema, config, sink, partitioned_by_null)
    inherited = leftmost.formats.value_format
    name = properties.value.format or inherited.format
    check_schema_id("VALUE", name, properties.value)
    value = _format_info(name, _inherited(name, inherited, properties.value))
    return _formats(key, value, schema, properties.wrap_single_value, config)


def _formats(key: FormatInfo, value: FormatInfo, schema: Schema, wrap: bool | None, config: Config) -> Formats:
    formats = Formats(
        key_format=key,
        value_format=value,
        key_features=_key_features(format_of(key.format), len(schema.key)),
        value_features=_value_features(format_of(value.format), len(schema.value), wrap, config),
    )
    validate_formats(formats, schema)
    return formats


def _sink_key(
    properties: SinkProperties, leftmost: Source, schema: Schema, config: Config, sink: str, partitioned_by_null: bool
) -> FormatInfo:
    """Choose the key format of a sink; a result with key columns does not inherit NONE."""
    explicit = properties.key.format
    if partitioned_by_null:
        if explicit not in (None, "NONE"):
            raise FormatError("Key format specified for stream without key columns.")
        return FormatInfo("NONE")
    inherited = leftmost.formats.key_format
    name = explicit or inherited.format
    if explicit is None and name == "NONE" and schema.key:
        name = _required(config.default_key_format, "key")
    check_schema_id("KEY", name, properties.key)
    return _format_info(name, _inherited(name, inherited, properties.key), key_of=sink)


def check_schema_id(prefix: str, name: str, properties: SerdeProperties) -> None:
    """Check that a format has schemas if the statement gives a schema id; `prefix` is KEY or VALUE.

    Raises:
        FormatError: the format `name` has no schemas.
    """
    if properties.schema_id is not None and not format_of(name).infers_columns:
        raise FormatError(
            f"{prefix}_FORMAT should support schema inference when {prefix}_SCHEMA_ID is provided. "
            f"Current format is {name}."
        )


def internal_formats(source: Formats, key: tuple[Column, ...], *, rekeyed: bool = True) -> Formats:
    """Choose the formats of a repartition topic or state store with the key columns `key`, from those of the source.

    The value format stays, without features and schema id. If a re-keying step makes a key that the key format cannot
    hold, the key format becomes JSON (rules F9).
    """
    key_format = without_schema_id(source.key_format)
    if rekeyed and not _holds(format_of(key_format.format), key):
        key_format = FormatInfo("JSON")
    features = _key_features(format_of(key_format.format), len(key)) if rekeyed else source.key_features
    return Formats(key_format, without_schema_id(source.value_format), features)


def without_schema_id(info: FormatInfo) -> FormatInfo:
    """Return the format without schema id, which belongs to one topic only."""
    return FormatInfo(info.format, tuple(pair for pair in info.properties if pair[0] != SCHEMA_ID))


def validate_formats(formats: Formats, schema: Schema) -> None:
    """Check that the formats can hold the columns of `schema`.

    Raises:
        FormatError: one cannot; the message gives format, columns, features and the reason.
    """
    _validate("Key", formats.key_format, schema.key, formats.key_features)
    _validate("Value", formats.value_format, schema.value, formats.value_features)


def _validate(side: str, info: FormatInfo, columns: tuple[Column, ...], features: frozenset[SerdeFeature]) -> None:
    reason = format_of(info.format).check(columns)
    if reason:
        names = ", ".join(sorted(feature.value for feature in features))
        raise FormatError(
            f"{side} format does not support schema.\n"
            f"format: {info.format}\n"
            f"schema: Persistence{{columns={column_list(columns)}, features=[{names}]}}\n"
            f"reason: {reason}"
        )


def _required(name: str | None, side: str) -> str:
    if name:
        return format_of(name).name
    raise PropertyError(
        f"Statement is missing the '{side.upper()}_FORMAT' property from the WITH clause. "
        f"Either provide one or set a default via the 'ksql.persistence.default.format.{side}' config."
    )


def _inherited(name: str, source: FormatInfo, own: SerdeProperties) -> dict[str, str]:
    inheritable = format_of(name).inheritable if name == source.format else frozenset[str]()
    return {**{key: text for key, text in source.properties if key in inheritable}, **dict(own.properties)}


def _format_info(name: str, properties: Mapping[str, str], *, key_of: str | None = None) -> FormatInfo:
    chosen = dict(properties)
    if name == "PROTOBUF":
        chosen[UNWRAP_PRIMITIVES] = "true"
    if name == "AVRO" and key_of is not None:
        chosen.setdefault(FULL_NAME, key_schema_name(key_of))
    info = FormatInfo(name, tuple(sorted(chosen.items())))
    check_properties(info)
    return info


def _key_features(chosen: Format, columns: int) -> frozenset[SerdeFeature]:
    unwraps = columns == 1 and chosen.chooses_wrapping
    return frozenset({SerdeFeature.UNWRAP_SINGLES}) if unwraps else frozenset()


def _value_features(chosen: Format, columns: int, wrap: bool | None, config: Config) -> frozenset[SerdeFeature]:
    if wrap is not None:
        feature = _wrapping(wrap)
        if feature not in chosen.features:
            raise PropertyError(
                f"Format '{chosen.name}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'."
            )
        if columns != 1:
            raise PropertyError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
        return frozenset({feature})
    default = config.wrap_single_values
    if columns != 1 or default is None:
        return frozenset()
    return frozenset({_wrapping(default)}) & chosen.features


def _wrapping(wrap: bool) -> SerdeFeature:
    return SerdeFeature.WRAP_SINGLES if wrap else SerdeFeature.UNWRAP_SINGLES


def _holds(chosen: Format, key: tuple[Column, ...]) -> bool:
    return (chosen.supports_many or len(key) <= 1) and all(chosen.supports_key(column.type) for column in key)
