"""A remote schema registry, accessed with confluent-kafka's client; calls have time limits, schemas by id are cached.

The schema of an id never changes, so cached schemas stay available while the registry is down. The latest schema of a
subject is requested every time.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar

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
K = TypeVar("K")
V = TypeVar("V")

REQUEST_SECONDS = 3.0
"""The time limit of one request in seconds; `timeout` in the configuration overrides it."""

CALL_SECONDS = 8.0
"""The time limit of one operation in seconds, including retries."""

PAUSE_SECONDS = 5.0
"""The pause in seconds after a failure, so that records need not wait for the registry one by one."""

_PREFIXES = ("ksql.schema.registry.", "schema.registry.")
_CLIENT_SETTINGS = frozenset(
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
_IGNORED_SETTINGS = frozenset({"url", "basic.auth.credentials.source"})
"""Ignored settings: the URL is a parameter of its own, and credentials follow from the other settings."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@,]*@")
_NOT_FOUND = 404
_READ_ONLY = 42205
"""The registry's error code for a subject in read-only mode."""

_TOO_MANY, _SERVER_ERROR = 429, 500

_LOG = logging.getLogger(__name__)

_cache: dict[str, dict[int, RegisteredSchema]] = {}
"""The schema cache of this process by URL without credentials; it outlives the tasks of a worker."""


def open_registry(url: str, config: Mapping[str, str]) -> SchemaRegistry:
    """Return the registry at `url`, which may list several URLs separated by commas; no request is sent yet.

    `config` accepts `basic.auth.user.info` (`name:password`), `bearer.auth.*`, `ssl.*.location` (PEM files),
    `ssl.key.password`, `proxy` and `timeout` (seconds), each with or without the prefix `ksql.schema.registry.` or
    `schema.registry.`.

    Raises:
        RegistryError: a setting is unknown, a file does not exist, or the URL is invalid.
    """
    return RemoteRegistry(url, _settings(config))


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for name, value in config.items():
        prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
        short = name.removeprefix(prefix)
        if short in _IGNORED_SETTINGS:
            continue
        if short not in _CLIENT_SETTINGS | {"timeout"}:
            raise RegistryError(
                f"Unknown setting of the schema registry: {name}",
                hint=f"use one of {', '.join(sorted(_CLIENT_SETTINGS | {'timeout'}))}",
            )
        settings[short] = value
    return settings


class _Pickled(TypedDict):
    url: str
    settings: dict[str, str]
    cache: dict[int, RegisteredSchema]


class RemoteRegistry:
    """The registry at a URL; it pickles, and connects on first use."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._url = url
        self._settings = dict(settings)
        self.name = _CREDENTIALS.sub("", url)
        self._unavailable_until = 0.0
        self._client: SchemaRegistryClient | None = self._open()
        self._ids: dict[tuple[str, int], int] = {}
        _cache.setdefault(self.name, {})

    def __repr__(self) -> str:
        return f"RemoteRegistry({self.name})"

    def __getstate__(self) -> _Pickled:
        return {"url": self._url, "settings": self._settings, "cache": dict(_cache[self.name])}

    def __setstate__(self, state: _Pickled) -> None:
        self._url, self._settings = state["url"], state["settings"]
        self.name = _CREDENTIALS.sub("", self._url)
        self._unavailable_until = 0.0
        self._client = None
        self._ids = {}
        _cache.setdefault(self.name, {}).update(state["cache"])

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Request the latest schema of `subject`; None if there is none.

        Raises:
            RegistryUnavailableError: the registry did not answer in time.
            RegistryError: the registry rejected the request.
        """
        return self._version(subject, "latest")

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with that id from the cache or the registry, or None; raises as `latest` does."""
        cached = _cache[self.name]
        if schema_id not in cached:
            schema = self._request(
                lambda client: _registered_schema(schema_id, client.get_schema(schema_id)), f"schema id {schema_id}"
            )
            if schema is None:
                return None
            cached[schema_id] = schema
        return cached[schema_id]

    def cached(self) -> Mapping[int, RegisteredSchema]:
        """Return the cached schemas by id."""
        return _cache[self.name]

    def register(
        self,
        subject: str,
        format: SchemaFormat,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        *,
        schema_id: int | None = None,
    ) -> int:
        """Register a schema under `subject` and return its id.

        Raises:
            RegistryUnavailableError: the registry did not answer in time.
            RegistryError: the registry rejected the schema, or its id is not `schema_id`.
        """
        imports = [WireReference(each.name, each.subject, each.version) for each in references]
        schema = Schema(text, format.value, imports)
        assigned = self._request(lambda client: _register(client, subject, schema), f"subject {subject}")
        if not isinstance(assigned, int) or (schema_id is not None and assigned != schema_id):
            raise RegistryError(
                f"The schema registry at {self.name} assigned id {assigned} to subject {subject}, not {schema_id}"
            )
        cached = _cache[self.name].get(assigned)
        if cached is not None and canonical(cached.format, cached.text) != canonical(format, text):
            # The registry may store the same schema with another text; messages are written with our text.
            cached = None
        _cache[self.name][assigned] = cached or RegisteredSchema(assigned, format, text, references)
        return assigned

    def freeze(self, subject: str) -> None:
        """Make the schemas of `subject` read-only; if the registry refuses, log a warning and go on."""
        try:
            done = self._request(
                lambda client: client.update_mode(subject, "READONLY"), f"the mode of subject {subject}"
            )
            reason = "" if done else f"the schema registry at {self.name} does not support modes"
        except RegistryError as error:
            reason = error.message
        if reason:
            _LOG.warning(
                "Others may still change the key schema of subject %s: %s (see the registry's setting mode.mutability)",
                subject,
                reason,
            )

    def retract(self, subject: str, schema_id: int) -> None:
        """Delete the newest version of `subject` permanently if it is this schema; raises as `latest` does."""
        newest = self._request(lambda client: client.get_version(subject, "latest"), f"subject {subject}")
        if newest is not None and newest.version and newest.schema_id == schema_id:
            for permanent in (False, True):
                self._request(
                    partial(_retract, subject=subject, version=newest.version, permanent=permanent),
                    f"version {newest.version} of subject {subject}",
                )

    def delete(self, subject: str) -> None:
        """Delete `subject` permanently, in the two steps that a registry requires; raises as `latest` does."""
        self._request(lambda client: _delete(client, subject, permanent=False), f"subject {subject}")
        self._request(lambda client: _delete(client, subject, permanent=True), f"subject {subject}")

    def subjects(self) -> tuple[str, ...]:
        """Request all subjects; raises as `latest` does."""
        return tuple(self._request(lambda client: client.get_subjects(), "subjects") or ())

    def snapshot(self) -> RegistryView:
        """Return a view that requests what is not cached."""
        return RegistryView(
            by_id=_Asked(self.by_id, self.cached),
            latest=_Asked(self._latest_id, self.subjects),
            versions=_Asked(self._version_id, self._versions),
        )

    def _latest_id(self, subject: str) -> int | None:
        schema = self.latest(subject)
        return None if schema is None else schema.id

    def _version_id(self, version: tuple[str, int]) -> int | None:
        """The schema of a version never changes, so its id is kept."""
        if version not in self._ids:
            schema = self._version(*version)
            if schema is None:
                return None
            self._ids[version] = schema.id
        return self._ids[version]

    def _versions(self) -> Iterable[tuple[str, int]]:
        return self._ids

    def _version(self, subject: str, number: int | Literal["latest"]) -> RegisteredSchema | None:
        def ask(client: SchemaRegistryClient) -> RegisteredSchema:
            version = client.get_version(subject, number)
            return _registered_schema(version.schema_id, version.schema)

        schema = self._request(ask, f"subject {subject}")
        return None if schema is None else _cache[self.name].setdefault(schema.id, schema)

    def _request(self, call: Callable[[SchemaRegistryClient], T], what: str) -> T | None:
        """Run `call` within the time limit; None if the registry answers that it does not have the object."""
        if time.monotonic() < self._unavailable_until:
            raise self._unavailable(what, "it did not answer a moment ago")
        client = self._client = self._open() if self._client is None else self._client
        try:
            return _run_with_timeout(CALL_SECONDS, lambda: call(client))
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                return None
            if error.http_status_code >= _SERVER_ERROR or error.http_status_code == _TOO_MANY:
                raise self._mark_unavailable(what, f"HTTP status {error.http_status_code}") from None
            reason = f"HTTP status {error.http_status_code}, {self._without_secrets(str(error.error_message))}"
            raise RegistryError(f"The schema registry at {self.name} refused {what}: {reason}") from None
        except Exception as error:  # noqa: BLE001 - the client also raises errors of its HTTP library and of bad answers
            raise self._mark_unavailable(what, type(error).__name__) from None

    def _mark_unavailable(self, what: str, reason: str) -> RegistryUnavailableError:
        self._unavailable_until = time.monotonic() + PAUSE_SECONDS
        return self._unavailable(what, reason)

    def _unavailable(self, what: str, reason: str) -> RegistryUnavailableError:
        return RegistryUnavailableError(
            f"The schema registry at {self.name} did not answer for {what}: {reason}",
            hint="check the URL and that the registry is up; cached schemas keep working",
        )

    def _open(self) -> SchemaRegistryClient:
        options: dict[str, Any] = {key: value for key, value in self._settings.items() if key in _CLIENT_SETTINGS}
        try:
            options["timeout"] = float(self._settings.get("timeout", REQUEST_SECONDS))
            return SchemaRegistryClient(
                {"url": self._url, "max.retries": 1, "retries.wait.ms": 200, "retries.max.wait.ms": 200, **options}
            )
        except (ValueError, TypeError, OSError) as error:
            reason = self._without_secrets(str(error)) or type(error).__name__
            raise RegistryError(f"Cannot open the schema registry at {self.name}: {reason}") from None

    def _without_secrets(self, text: str) -> str:
        text = _CREDENTIALS.sub("", text)
        secrets = [value for key, value in self._settings.items() if not key.endswith(".location")]
        for secret in (part for value in secrets for part in (value, value.rpartition(":")[2]) if part):
            text = text.replace(secret, "***")
        return text


def _register(client: SchemaRegistryClient, subject: str, schema: Schema) -> int | None:
    try:
        return client.register_schema(subject, schema)
    except SchemaRegistryError as error:
        if error.error_code != _READ_ONLY:
            raise
        # The read-only subject may already have this schema.
        return client.lookup_schema(subject, schema).schema_id


def _delete(client: SchemaRegistryClient, subject: str, *, permanent: bool) -> list[int]:
    try:
        return client.delete_subject(subject, permanent)
    except SchemaRegistryError as error:
        if error.error_code != _READ_ONLY:
            raise
        # `freeze` made the subject read-only, and the mode would outlive the subject.
        client.update_mode(subject, "READWRITE")
        return client.delete_subject(subject, permanent)


def _retract(client: SchemaRegistryClient, *, subject: str, version: int, permanent: bool) -> int:
    return client.delete_version(subject, version, permanent)


def _run_with_timeout(seconds: float, work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own: a server that sends single bytes evades all other time limits.

    Raises:
        TimeoutError: the work takes longer; its thread is abandoned.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 - re-raised in the waiting thread
            result.set_exception(error)

    threading.Thread(target=run, daemon=True, name="schema-registry").start()
    return result.result(timeout=seconds)


def _registered_schema(schema_id: object, schema: Schema) -> RegisteredSchema:
    references = tuple(
        SchemaReference(str(each.name), str(each.subject), int(each.version or 0)) for each in schema.references or ()
    )
    if not isinstance(schema_id, int) or not isinstance(schema.schema_str, str):
        raise TypeError("a schema without id or text")
    return RegisteredSchema(schema_id, SchemaFormat(schema.schema_type or "AVRO"), schema.schema_str, references)


class _Asked(Mapping[K, V]):
    """What the registry knows, by key; iteration covers what is known, a lookup requests the rest."""

    def __init__(self, ask: Callable[[K], V | None], known: Callable[[], Iterable[K]]) -> None:
        self._ask, self._known = ask, known

    def __getitem__(self, key: K) -> V:
        found = self._ask(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[K]:
        return iter([*self._known()])

    def __len__(self) -> int:
        return len([*self._known()])
