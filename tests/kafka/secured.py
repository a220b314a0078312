"""A broker with ACLs and SASL, with and without TLS; with certificates made here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from kestrel_sql.kafka.broker.broker import HOST, Broker, free_port
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.processes import ReturningBroker

PASSWORD = "pw-that-nobody-may-see"
_STORE = "pw-of-the-store"
_PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{PASSWORD}";'
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

Started = TypeVar("Started", Broker, ReturningBroker)
Right = tuple[ResourceType, str, AclOperation]
_ALL: tuple[Right, ...] = (
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
)


@dataclass(frozen=True, slots=True)
class Secured:
    """Addresses of a broker: open, with SASL, with SASL and TLS. `ca` signed its certificate, `stranger` did not.

    ACLs restrict the user `ann`; clients of the open address may do everything.
    """

    open: str
    sasl: str
    tls: str
    ca: Path
    stranger: Path


def login(mechanism: str, password: str = PASSWORD) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'org.apache.kafka.common.security.{module} required username="ann" password="{password}";'


def write_properties(path: Path, **properties: str) -> Path:
    path.write_text(
        "".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()), encoding="utf-8"
    )
    return path


def tls_properties(path: Path, secured: Secured) -> Path:
    """Write what a client of the address with TLS needs."""
    return write_properties(
        path,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=login("SCRAM-SHA-256"),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(secured.ca),
    )


def files_with_secrets(*places: Path) -> list[Path]:
    """The files at or below these paths that contain the password."""
    files = (file for place in places for file in (place, *place.rglob("*")) if file.is_file())
    return [file for file in files if PASSWORD.encode() in file.read_bytes()]


def start_secured(folder: Path, start: Callable[[Mapping[str, str]], Started]) -> tuple[Started, Secured]:
    """Start a broker with more properties; user `ann` has the password by PLAIN and by SCRAM-SHA-256."""
    ca, stranger = (_certificate(folder, name) for name in ("broker", "stranger"))
    sasl, tls = free_port(), free_port()
    broker = start(_settings(folder, sasl, tls))
    admin = admin_client(KafkaConfig(servers=broker.address))
    user = UserScramCredentialUpsertion(
        "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
    )
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result()
    forbid(broker.address)
    return broker, Secured(broker.address, f"{HOST}:{sasl}", f"{HOST}:{tls}", ca, stranger)


def forbid(servers: str, *rights: Right) -> None:
    """Give ann all ACLs but one."""
    admin = admin_client(KafkaConfig(servers=servers))
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for future in admin.delete_acls([every]).values():
        future.result()
    entries = [(right, AclPermissionType.ALLOW) for right in _ALL] + [
        (right, AclPermissionType.DENY) for right in rights
    ]
    made = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, permission)
        for (kind, name, operation), permission in entries
    ]
    for future in admin.create_acls(made).values():
        future.result()
    # The controller says that they are there before the broker goes by them.
    deadline = time.monotonic() + 20
    while {*admin.describe_acls(every).result()} != {*made}:
        assert time.monotonic() < deadline, "the broker does not know the ACLs"
        time.sleep(0.02)


def _settings(folder: Path, sasl: int, tls: int) -> Mapping[str, str]:
    listeners = f"SASL://{HOST}:{sasl},TLS://{HOST}:{tls}"
    logins = {
        f"listener.name.{name}.{mechanism}.sasl.jaas.config": login
        for name in ("sasl", "tls")
        for mechanism, login in (("plain", _PLAIN), ("scram-sha-256", _SCRAM))
    }
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,TLS:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "broker.p12"),
        "ssl.keystore.password": _STORE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **logins,
    }


def _certificate(folder: Path, name: str) -> Path:
    """Make a key with a self-signed certificate; return the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    own, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(own)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, SHA256())
    )
    locked = BestAvailableEncryption(_STORE.encode())
    (folder / f"{name}.p12").write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, made, None, locked))
    pem = folder / f"{name}.pem"
    pem.write_bytes(made.public_bytes(Encoding.PEM))
    return pem
