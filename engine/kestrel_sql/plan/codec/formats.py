"""Codec of the `formats` object, with today's features and the `options` of older releases."""

from __future__ import annotations

from kestrel_sql.errors import NewerPlanError, PlanError
from kestrel_sql.plan.codec.values import Wire, child, choice, mapping, only, required, sequence, shorten, string
from kestrel_sql.plan.step import FormatInfo, Formats, SerdeFeature

_FEATURES = sequence(choice(SerdeFeature))
_OPTIONS = {"WRAP_SINGLE_VALUES": SerdeFeature.WRAP_SINGLES, "UNWRAP_SINGLE_VALUES": SerdeFeature.UNWRAP_SINGLES}


def _option(value: object, path: str) -> SerdeFeature:
    option = string(value, path)
    if option not in _OPTIONS:
        raise NewerPlanError(
            f"{shorten(option)} is not one of {', '.join(_OPTIONS)}", path=path, part=f"the option {shorten(option)}"
        )
    return _OPTIONS[option]


_OPTION_LIST = sequence(Wire(_option, str))


def _format(value: object, path: str) -> FormatInfo:
    document = mapping(value, path)
    only(document, ("format", "properties"), path)
    name = string(required(document, "format", path), f"{path}.format")
    inner = f"{path}.properties"
    properties = document.get("properties")
    pairs = {} if properties is None else mapping(properties, inner)
    return FormatInfo(name, tuple((string(key, inner), string(pair, child(inner, key))) for key, pair in pairs.items()))


def _write_format(info: FormatInfo) -> dict[str, object]:
    return {"format": info.format, "properties": dict(info.properties)}


def _features(document: dict[str, object], key: str, path: str) -> frozenset[SerdeFeature]:
    if document.get(key) is None:
        return frozenset()
    wire = _OPTION_LIST if key == "options" else _FEATURES
    return frozenset(wire.decode(document[key], f"{path}.{key}"))


def _one(features: frozenset[SerdeFeature], path: str) -> frozenset[SerdeFeature]:
    if len(features) > 1:
        raise PlanError("expected WRAP_SINGLES or UNWRAP_SINGLES, got both", path=path)
    return features


def _formats(value: object, path: str) -> Formats:
    document = mapping(value, path)
    only(document, ("keyFormat", "valueFormat", "keyFeatures", "valueFeatures", "options"), path)
    return Formats(
        key_format=_format(required(document, "keyFormat", path), f"{path}.keyFormat"),
        value_format=_format(required(document, "valueFormat", path), f"{path}.valueFormat"),
        key_features=_one(_features(document, "keyFeatures", path), f"{path}.keyFeatures"),
        value_features=_one(
            _features(document, "valueFeatures", path) | _features(document, "options", path), f"{path}.valueFeatures"
        ),
    )


def _write_formats(formats: Formats) -> dict[str, object]:
    document: dict[str, object] = {
        "keyFormat": _write_format(formats.key_format),
        "valueFormat": _write_format(formats.value_format),
    }
    if formats.key_features:
        document["keyFeatures"] = _FEATURES.encode(formats.key_features)
    if formats.value_features:
        document["valueFeatures"] = _FEATURES.encode(formats.value_features)
    return document


FORMATS = Wire(_formats, _write_formats)
