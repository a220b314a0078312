"""Translates client properties between the names of Java clients (for Spark) and of librdkafka (for Python).

A security property is never dropped silently, because a client would then connect in another way than the user asked
for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kestrel_sql.errors import EngineError

_JAAS = "sasl.jaas.config"
_USER, _PASSWORD, _MECHANISM = "sasl.username", "sasl.password", "sasl.mechanism"

_SAME = frozenset(
    {
        "client.id",
        "client.dns.lookup",
        "client.rack",
        "security.protocol",
        _MECHANISM,
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.scope",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.cipher.suites",
        "metadata.max.age.ms",
        "connections.max.idle.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
    }
)
"""Properties with the same name and meaning in both clients."""

_ONLY_CONSUMER = frozenset({"client.rack"})

_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_PEM_STORES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
_PEM_TEXTS = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_SECURE = ("ssl.", "sasl.", "security.", "enable.ssl.")


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate client properties for librdkafka; properties that only tune a Java client are left out.

    Raises:
        EngineError: a security property has no equivalent in librdkafka.
    """
    given = _one_spelling(properties)
    found: dict[str, str] = {}
    for name, value in given.items():
        found.update(_native(name, value, given))
    return found


def for_java(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate client properties for Java's clients.

    Raises:
        EngineError: a security property has no equivalent in Java clients.
    """
    given = _one_spelling(properties)
    found: dict[str, str] = {}
    for name, value in given.items():
        rewrite = _TO_JAVA.get(name)
        found.update(rewrite(value, given) if rewrite else {name: value})
    return found


def _one_spelling(properties: Mapping[str, str]) -> dict[str, str]:
    given = {_MECHANISM if name == "sasl.mechanisms" else name: value for name, value in properties.items()}
    return {name: value.upper() if name == "security.protocol" else value for name, value in given.items()}


def _native(name: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    rewrite = _TO_NATIVE.get(name)
    if rewrite is not None:
        return rewrite(name, value, given)
    if name == "ssl.endpoint.identification.algorithm" and not value:
        return {name: "none"}
    if name in _ONLY_CONSUMER:
        return {}
    if name in _SAME or name in _TO_JAVA:
        return {name: value}
    if name.startswith(_SECURE):
        raise EngineError(
            f"the Kafka property {name} has no equivalent in the Python client",
            hint="use PLAIN, SCRAM or OAUTHBEARER, and PEM files for TLS",
        )
    return {}


def _jaas_native(_: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    if given.get(_MECHANISM, "").upper() == "OAUTHBEARER":
        oauth = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
        return {
            "sasl.oauthbearer.method": "oidc",
            **{native: found for java, native in oauth.items() if (found := _option(value, java))},
        }
    user, password = _option(value, "username"), _option(value, "password")
    if user is None or password is None:
        raise EngineError(
            "sasl.jaas.config contains no username and password",
            hint='write …LoginModule required username="…" password="…";',
        )
    return {_USER: user, _PASSWORD: password}


def _option(jaas: str, name: str) -> str | None:
    """The value of an option in a JAAS configuration, quoted or not."""
    match = re.search(rf"""(?:^|\s){name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", jaas)
    if match is None:
        return None
    quoted = match.group(1) if match.group(1) is not None else match.group(2)
    return match.group(3) if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def _store_native(name: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    kind = given.get(name.replace(".location", ".type"), "PEM" if value.endswith(".pem") else "JKS").upper()
    if kind == "PEM":
        return dict.fromkeys(_PEM_STORES[name], value)
    if kind == "PKCS12" and name == "ssl.keystore.location":
        password = given.get("ssl.keystore.password")
        return {name: value, **({} if password is None else {"ssl.keystore.password": password})}
    raise EngineError(
        f"the Kafka property {name} names a store of type {kind}, which the Python client cannot read",
        hint=f"convert it to PEM and set {name.replace('.location', '.type')}=PEM",
    )


def _nothing(_: str, __: str, ___: Mapping[str, str]) -> dict[str, str]:
    """Drop a property that another one includes."""
    return {}


_TO_NATIVE: Mapping[str, Callable[[str, str, Mapping[str, str]], dict[str, str]]] = {
    _JAAS: _jaas_native,
    "sasl.oauthbearer.token.endpoint.url": lambda name, value, _: {name: value},
    "sasl.login.callback.handler.class": _nothing,
    **dict.fromkeys(_PEM_STORES, _store_native),
    **{java: lambda name, value, _: {_PEM_TEXTS[name]: value} for java in _PEM_TEXTS},
    **dict.fromkeys(
        (
            "ssl.truststore.type",
            "ssl.keystore.type",
            "ssl.truststore.password",
            "ssl.keystore.password",
            "ssl.protocol",
            "ssl.enabled.protocols",
        ),
        _nothing,
    ),
}


def _login(_: str, given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get(_MECHANISM, "PLAIN").upper()
    module = _LOGIN.get(mechanism)
    if module is None:
        raise EngineError(f"the mechanism {mechanism} does not use sasl.username", hint="use sasl.jaas.config instead")
    return {
        _JAAS: (
            f"{module} required username={_quoted(given.get(_USER, ''))} password={_quoted(given.get(_PASSWORD, ''))};"
        )
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _key_file(value: str, given: Mapping[str, str]) -> dict[str, str]:
    if given.get("ssl.certificate.location") != value:
        raise EngineError(
            "ssl.key.location and ssl.certificate.location are different files",
            hint="put key and certificate into one PEM file",
        )
    return {}


_TO_JAVA: Mapping[str, Callable[[str, Mapping[str, str]], dict[str, str]]] = {
    _USER: _login,
    _PASSWORD: lambda _, __: {},
    "ssl.ca.location": lambda value, _: {"ssl.truststore.type": "PEM", "ssl.truststore.location": value},
    "ssl.ca.pem": lambda value, _: {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": value},
    "ssl.certificate.location": lambda value, _: {"ssl.keystore.type": "PEM", "ssl.keystore.location": value},
    "ssl.key.location": _key_file,
    "ssl.certificate.pem": lambda value, _: {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": value},
    "ssl.key.pem": lambda value, _: {"ssl.keystore.type": "PEM", "ssl.keystore.key": value},
}
"""The translation of librdkafka's properties for a Java client."""
