"""Write values as JSON that reads back to the same value, decimals included."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal

from kestrel_qtt.cases.model import Actual, ActualRecord
from kestrel_qtt.judge.compare import Absent


def write_json(value: Actual) -> str:
    """Write `value` on one line: doubles in their shortest form; NaN and infinities as strings; bytes in base64."""
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else json.dumps(str(value))
    if isinstance(value, float):
        return json.dumps(value) if value - value == 0 else json.dumps(str(value))
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode("ascii"))
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{json.dumps(str(n), ensure_ascii=False)}: {write_json(v)}" for n, v in value.items())
            + "}"
        )
    return "[" + ", ".join(map(write_json, value)) + "]"


def show(value: Actual | Absent) -> str:
    """Write `value` with its type, so that `1`, `"1"` and `1.0` differ."""
    if isinstance(value, Absent):
        return "(absent)"
    return "null" if value is None else f"{write_json(value)} ({type_name(value)})"


def type_name(value: Actual) -> str:
    """Return the name of the type of `value` in a report."""
    if value is None:
        return "null"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return "array"


_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (Decimal, "decimal"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (Mapping, "object"),
)


def record_json(topic: str, record: ActualRecord) -> str:
    """Return a record as one line of JSON, as a case lists it in `outputs`."""
    members: dict[str, object] = {
        "topic": topic,
        "key": record.key,
        "value": record.value,
        "timestamp": record.timestamp,
    }
    texts = [f'"{name}": {write_json(value)}' for name, value in members.items()]  # type: ignore[arg-type]
    if record.window:
        window = record.window
        texts.append(f'"window": {write_json({"start": window.start, "end": window.end, "type": window.kind})}')
    if record.headers:
        pairs = [
            {"KEY": name, "VALUE": None if v is None else base64.b64encode(v).decode("ascii")}
            for name, v in record.headers
        ]
        texts.append(f'"headers": {write_json(pairs)}')
    return "{" + ", ".join(texts) + "}"
