"""Write records as a case expects them."""

from __future__ import annotations

import base64

from kestrel_qtt.cases.model import ActualRecord
from kestrel_qtt.judge.json_text import write_json


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
