"""A schema registry by URL, on confluent-kafka's client: bounded in time, each id asked for once in a process.

Ids never change their schema, so what was found stays known when the registry is away. What a subject's newest schema is, is asked anew.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry import SchemaReference as WireReference

from kestrel_sql.errors import RegistryError, RegistryUnavailableError
from kestrel_sql.formats.registry.memory import (
    RegisteredSchema,
    RegistryView,
    SchemaFormat,
    SchemaReference,
    SchemaRegistry,
    canonical,
)

T = TypeVar("T")

REQUEST_SECONDS = 3.0
"""How long one request may wait for the registry; `timeout` of the configuration overrides it."""

CALL_SECONDS = 8.0
"""How long anything that is asked of the registry may take, retries included."""

REST_SECONDS = 5.0
"""How long a registry that was away is not asked again: records must not wait for it one by one."""

_PREFIXES = ("ksql.schema.registry.", "schema.registry.")
_PASSED_ON = frozenset(
    {
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.identity.pool.id",
        "bearer.auth.logical.cluster",
        "bearer.auth.token",
        "proxy",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    }
)
_IMPLIED = frozenset({"url", "basic.auth.credentials.source"})
"""The URL is given apart, and whether there are credentials says where they come from."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@,]*@")
_NOT_FOUND = 404
_READ_ONLY = 42205
"""The registry's code for a subject that takes no more schemas."""

_TOO_MANY, _SERVER_ERROR = 429, 500

_LOG = logging.getLogger(__name__)

_known: dict[str, dict[int, RegisteredSchema]] = {}
"""What this process knows, by URL without credentials: tasks of one worker come and go, schemas stay."""


def open_registry(url: str, config: Mapping[str, str]) -> SchemaRegistry:
    """Open the registry at `url`, several of which may be separated by commas; nothing is asked yet.

    `config` takes `basic.auth.user.info` (`name:password`), `bearer.auth.*`, `ssl.*.location` of PEM files, `ssl.key.password`, `proxy` and
    `timeout` (seconds), each with or without the prefix `ksql.schema.registry.` or `schema.registry.`.

    Raises:
        RegistryError: an unknown setting, a file that is not there, or something that is no URL.
    """
    return RemoteRegistry(url, _settings(config))


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in config.items():
        prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
        short = name.removeprefix(prefix)
        if short in _IMPLIED:
            continue
        if short not in _PASSED_ON | {"timeout"}:
            raise RegistryError(
                f"Unknown setting of the schema registry: {name}",
                hint=f"known are {', '.join(sorted(_PASSED_ON | {'timeout'}))}",
            )
        found[short] = value
    return found


class RemoteRegistry:
    """The registry at a URL; it pickles, and opens its connection where it is used."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._url = url
        self._settings = dict(settings)
        self.name = _CREDENTIALS.sub("", url)
        self._away_until = 0.0
        self._client: Any = self._open()
        _known.setdefault(self.name, {})

    def __repr__(self) -> str:
        return f"RemoteRegistry({self.name})"

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self._url, "settings": self._settings, "known": dict(_known[self.name])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url, self._settings = state["url"], state["settings"]
        self.name = _CREDENTIALS.sub("", self._url)
        self._away_until = 0.0
        self._client = None
        _known.setdefault(self.name, {}).update(state["known"])

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Ask for the newest schema of `subject`; None if there is none.

        Raises:
            RegistryUnavailableError: no answer in time.
            RegistryError: the registry refused.
        """
        return self._version(subject, "latest")

    def version(self, subject: str, number: int) -> RegisteredSchema | None:
        """Ask for a version of `subject`; raises as `latest`."""
        return self._version(subject, number)

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Give the schema with that id, or None; raises as `latest`."""
        known = _known[self.name]
        if schema_id not in known:
            found = self._ask(
                lambda client: _registered(schema_id, client.get_schema(schema_id)), f"schema id {schema_id}"
            )
            if found is None:
                return None
            known[schema_id] = found
        return known[schema_id]

    def known(self) -> Mapping[int, RegisteredSchema]:
        """What this process knows already."""
        return _known[self.name]

    def register(
        self,
        subject: str,
        format: SchemaFormat,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        *,
        schema_id: int | None = None,
    ) -> int:
        """Register a schema under `subject` and give its id.

        Raises:
            RegistryUnavailableError: no answer in time.
            RegistryError: the registry refused, or gave another id than `schema_id`.
        """
        imports = [WireReference(each.name, each.subject, each.version) for each in references]
        schema = Schema(text, format.value, imports)
        given = self._ask(lambda client: _register(client, subject, schema), f"subject {subject}")
        if not isinstance(given, int) or (schema_id is not None and given != schema_id):
            raise RegistryError(
                f"The schema registry at {self.name} gave id {given} to subject {subject}, not {schema_id}"
            )
        known = _known[self.name].get(given)
        if known is not None and canonical(known.format, known.text) != canonical(format, text):
            # The registry may write the same schema in another way; what is written under an id is ours.
            known = None
        _known[self.name][given] = known or RegisteredSchema(given, format, text, references)
        return given

    def freeze(self, subject: str) -> None:
        """Make the schemas of `subject` read-only; where the registry refuses, a warning is logged and nothing fails."""
        try:
            done = self._ask(lambda client: client.update_mode(subject, "READONLY"), f"the mode of subject {subject}")
            reason = "" if done else f"the schema registry at {self.name} knows no modes"
        except RegistryError as error:
            reason = error.message
        if reason:
            _LOG.warning(
                "Others may still change the key schema of subject %s: %s (see its setting mode.mutability)",
                subject,
                reason,
            )

    def delete(self, subject: str) -> None:
        """Delete `subject` for good, which a registry does in two steps; raises as `latest`."""
        self._ask(lambda client: _delete(client, subject, permanent=False), f"subject {subject}")
        self._ask(lambda client: _delete(client, subject, permanent=True), f"subject {subject}")

    def subjects(self) -> tuple[str, ...]:
        """Ask for all subjects; raises as `latest`."""
        return tuple(self._ask(lambda client: client.get_subjects(), "subjects") or ())

    def snapshot(self) -> RegistryView:
        """Give a view that asks for what it does not know."""
        return RegistryView(by_id=_Schemas(self), latest=_Latest(self), versions=_Versions(self))

    def _version(self, subject: str, number: int | str) -> RegisteredSchema | None:
        def ask(client: Any) -> RegisteredSchema:
            found = client.get_version(subject, number)
            return _registered(found.schema_id, found.schema)

        schema = self._ask(ask, f"subject {subject}")
        return None if schema is None else _known[self.name].setdefault(schema.id, schema)

    def _ask(self, call: Callable[[Any], T], what: str) -> T | None:
        """Do `call` in time; None if the registry does not have what was asked for."""
        if time.monotonic() < self._away_until:
            raise self._away(what, "it did not answer a moment ago")
        if self._client is None:
            self._client = self._open()
        try:
            return _within(CALL_SECONDS, lambda: call(self._client))
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                return None
            if error.http_status_code >= _SERVER_ERROR or error.http_status_code == _TOO_MANY:
                raise self._gone(what, f"HTTP status {error.http_status_code}") from None
            reason = f"HTTP status {error.http_status_code}, {self._without_secrets(str(error.error_message))}"
            raise RegistryError(f"The schema registry at {self.name} refused {what}: {reason}") from None
        except Exception as error:  # noqa: BLE001 - the client raises what its HTTP library and a strange answer make it raise
            raise self._gone(what, type(error).__name__) from None

    def _gone(self, what: str, reason: str) -> RegistryUnavailableError:
        self._away_until = time.monotonic() + REST_SECONDS
        return self._away(what, reason)

    def _away(self, what: str, reason: str) -> RegistryUnavailableError:
        return RegistryUnavailableError(
            f"The schema registry at {self.name} cannot be asked for {what}: {reason}",
            hint="check the URL and that the registry is up; ids that are known already go on working",
        )

    def _open(self) -> Any:
        options: dict[str, Any] = {key: value for key, value in self._settings.items() if key in _PASSED_ON}
        try:
            options["timeout"] = float(self._settings.get("timeout", REQUEST_SECONDS))
            return SchemaRegistryClient(
                {"url": self._url, "max.retries": 1, "retries.wait.ms": 200, "retries.max.wait.ms": 200, **options}
            )
        except (ValueError, TypeError, OSError) as error:
            reason = self._without_secrets(str(error)) or type(error).__name__
            raise RegistryError(f"The schema registry at {self.name} cannot be opened: {reason}") from None

    def _without_secrets(self, text: str) -> str:
        text = _CREDENTIALS.sub("", text)
        secrets = [value for key, value in self._settings.items() if not key.endswith(".location")]
        for secret in (part for value in secrets for part in (value, value.rpartition(":")[2]) if part):
            text = text.replace(secret, "***")
        return text


def _register(client: Any, subject: str, schema: Schema) -> Any:
    try:
        return client.register_schema(subject, schema)
    except SchemaRegistryError as error:
        if error.error_code != _READ_ONLY:
            raise
        # A subject that takes no more schemas may have this one.
        return client.lookup_schema(subject, schema).schema_id


def _delete(client: Any, subject: str, *, permanent: bool) -> Any:
    try:
        return client.delete_subject(subject, permanent)
    except SchemaRegistryError as error:
        if error.error_code != _READ_ONLY:
            raise
        # The key of a sink, see `freeze`; its mode would outlive it.
        client.update_mode(subject, "READWRITE")
        return client.delete_subject(subject, permanent)


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Do `work` in a thread of its own, for a server that sends a byte now and then keeps every other limit.

    Raises:
        TimeoutError: it takes longer; the thread is left to itself.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 - it is raised on in the thread that waits
            result.set_exception(error)

    threading.Thread(target=run, daemon=True, name="schema-registry").start()
    return result.result(timeout=seconds)


def _registered(schema_id: Any, schema: Any) -> RegisteredSchema:
    references = tuple(
        SchemaReference(str(each.name), str(each.subject), int(each.version or 0)) for each in schema.references or ()
    )
    if not isinstance(schema_id, int) or not isinstance(schema.schema_str, str):
        raise TypeError("a schema without an id or a text")
    return RegisteredSchema(schema_id, SchemaFormat(schema.schema_type or "AVRO"), schema.schema_str, references)


class _Schemas(Mapping[int, RegisteredSchema]):
    """Schemas by id; iteration gives those that are known, look-up asks for others."""

    def __init__(self, registry: RemoteRegistry) -> None:
        self._registry = registry

    def __getitem__(self, schema_id: int) -> RegisteredSchema:
        found = self._registry.by_id(schema_id)
        if found is None:
            raise KeyError(schema_id)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._registry.known()))

    def __len__(self) -> int:
        return len(self._registry.known())


class _Latest(Mapping[str, int]):
    """The id of the newest schema of each subject."""

    def __init__(self, registry: RemoteRegistry) -> None:
        self._registry = registry

    def __getitem__(self, subject: str) -> int:
        found = self._registry.latest(subject)
        if found is None:
            raise KeyError(subject)
        return found.id

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.subjects())

    def __len__(self) -> int:
        return len(self._registry.subjects())


class _Versions(Mapping[tuple[str, int], int]):
    """The id of a version of a subject; a version never changes its schema, so it is asked for once."""

    def __init__(self, registry: RemoteRegistry) -> None:
        self._registry = registry
        self._ids: dict[tuple[str, int], int] = {}

    def __getitem__(self, version: tuple[str, int]) -> int:
        if version not in self._ids:
            found = self._registry.version(*version)
            if found is None:
                raise KeyError(version)
            self._ids[version] = found.id
        return self._ids[version]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(list(self._ids))

    def __len__(self) -> int:
        return len(self._ids)
