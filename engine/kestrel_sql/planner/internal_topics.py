"""Topics that no statement writes or deletes, or that are hidden: those of Kafka and of services (L6.24, L6.25)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kestrel_sql.errors import PropertyError, Span, StatementError

READ_ONLY = "ksql.readonly.topics"
HIDDEN = "ksql.hidden.topics"

_DEFAULT = "_confluent.*,__.*,_schemas,connect-configs,connect-offsets,connect-status,connect-statuses"
_OF_SERVICES = "_confluent-ksql-.*"
"""What services keep for themselves, such as their command topics: not even a setting opens it."""


def is_internal(topic: str, settings: Mapping[str, str]) -> bool:
    """Whether a topic matches a pattern of `ksql.readonly.topics`, or belongs to a service.

    Raises:
        PropertyError: a pattern is no regular expression.
    """
    return re.fullmatch(_OF_SERVICES, topic) is not None or _matches(READ_ONLY, topic, settings)


def is_hidden(topic: str, settings: Mapping[str, str]) -> bool:
    """Whether a topic matches a pattern of `ksql.hidden.topics`.

    Raises:
        PropertyError: a pattern is no regular expression.
    """
    return _matches(HIDDEN, topic, settings)


def _matches(setting: str, topic: str, settings: Mapping[str, str]) -> bool:
    patterns = settings.get(setting, _DEFAULT).split(",")
    try:
        return any(re.fullmatch(pattern.strip(), topic) for pattern in patterns)
    except re.error as error:
        raise PropertyError(f"Invalid value for configuration {setting}: {error.pattern!r}: {error}") from error


def check_writable(topic: str, settings: Mapping[str, str], span: Span | None = None) -> None:
    """Check that a statement may create, write and delete a topic.

    Raises:
        StatementError: it is internal.
    """
    if is_internal(topic, settings):
        raise StatementError(f"The topic {topic} is internal: it can only be read.", span=span)
