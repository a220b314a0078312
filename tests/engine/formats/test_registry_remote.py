"""The remote registry, tested with a stub that simulates a registry and its faults."""

from __future__ import annotations

import datetime as dt
import ipaddress
import pickle
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from kestrel_sql.errors import RegistryError, RegistryUnavailableError, SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.registry import remote as registry_remote
from kestrel_sql.formats.registry.memory import SchemaFormat, SchemaReference
from kestrel_sql.formats.registry.remote import open_registry
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from tests.engine.formats.registry_stub import Stub, handler_of, send
from tests.engine.formats.samples import spec

SECRET = "pass-of-nobody"
RECORD = '{"type":"record","name":"R","fields":[{"name":"A","type":["null","int"],"default":null}]}'


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(registry_remote, "_cache", {})
    made = Stub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(made))
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def test_schemas_are_found_by_id_and_subject_and_requested_once(stub: Stub) -> None:
    given = stub.register("t-value", {"schema": RECORD})
    registry = open_registry(stub.url, {})
    latest = registry.latest("t-value")
    assert latest is not None
    assert (latest.id, latest.format, latest.text) == (given, SchemaFormat.AVRO, RECORD)
    assert registry.by_id(given) == registry.by_id(given) == latest
    assert (registry.latest("other"), registry.by_id(7)) == (None, None)
    assert f"GET /schemas/ids/{given}" not in stub.asked
    assert registry.subjects() == ("t-value",)


def test_the_latest_schema_of_a_subject_is_requested_every_time(stub: Stub) -> None:
    stub.register("t-value", {"schema": RECORD})
    registry = open_registry(stub.url, {})
    before = registry.latest("t-value")
    stub.register("t-value", {"schema": '"int"'})
    after = registry.latest("t-value")
    assert before is not None
    assert after is not None
    assert before.id != after.id


def test_an_id_keeps_its_schema_even_if_the_registry_changes_it(stub: Stub) -> None:
    given = stub.register("t-value", {"schema": RECORD})
    registry = open_registry(stub.url, {})
    first = registry.by_id(given)
    stub.schemas[given] = {"schema": '"string"'}
    assert registry.by_id(given) == first


def test_a_session_infers_and_registers_schemas_and_records_round_trip(stub: Stub) -> None:
    stub.register("in-value", {"schema": RECORD})
    session = Session(config=Config.of({}), registry=open_registry(stub.url, {}))
    text = (
        "CREATE STREAM S WITH (KAFKA_TOPIC='in', VALUE_FORMAT='AVRO'); CREATE STREAM O WITH "
        "(KAFKA_TOPIC='out') AS SELECT A FROM S;"
    )
    for parsed in session.parse(text):
        session.execute(parsed)
    assert list(stub.subjects) == ["in-value", "out-value"]
    given = replace(spec("AVRO", "A INT"), topic="out", schemas=session.registry.snapshot())
    data = table.encoder(given)((5,))
    assert data is not None
    assert int.from_bytes(data[1:5], "big") == stub.subjects["out-value"][-1]
    assert table.decoder(given)(data) == (5,)


DROPPED = """
CREATE STREAM S (K INT KEY, A INT) WITH (KAFKA_TOPIC='in', KEY_FORMAT='AVRO', VALUE_FORMAT='AVRO');
CREATE STREAM O WITH (KAFKA_TOPIC='out', VALUE_FORMAT='JSON') AS SELECT K, A FROM S;
CREATE STREAM L (K STRING KEY, A INT) WITH (KAFKA_TOPIC='left', VALUE_FORMAT='AVRO');
DROP STREAM O{0};
"""


@pytest.mark.rules("L5.15")
@pytest.mark.parametrize(
    ("clause", "left"),
    [(" DELETE TOPIC", ["in-key", "in-value", "left-value"]), ("", ["in-key", "in-value", "out-key", "left-value"])],
)
def test_deleting_a_topic_deletes_its_subjects_permanently_even_if_read_only(
    stub: Stub, clause: str, left: list[str]
) -> None:
    session = Session(config=Config.of({}), registry=open_registry(stub.url, {}))
    for parsed in session.parse(DROPPED.format(clause)):
        done = session.execute(parsed)
    assert stub.frozen == {"out-key"}
    assert sorted(stub.subjects) == sorted(["in-key", "in-value", "out-key", "left-value"]), "the topic comes first"
    for _ in range(2):
        if done.deletes is not None:
            session.delete_schemas(done.deletes)
    assert list(stub.subjects) == left
    assert stub.deleted == set()
    assert stub.frozen == (set() if clause else {"out-key"})


def test_a_statement_that_fails_takes_its_schemas_back(stub: Stub) -> None:
    session = Session(config=Config.of({}), registry=open_registry(stub.url, {}))
    create = "CREATE STREAM S (K INT KEY, A INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='AVRO');"
    write = "CREATE STREAM {0} WITH (KAFKA_TOPIC='out', KEY_FORMAT='AVRO') AS SELECT K, A + {1} AS A FROM S;"
    for text in (create, write.format("O", "1"), write.format("P", "1.5")):
        before = {subject: list(ids) for subject, ids in stub.subjects.items()}
        done = session.execute(*session.parse(text))
        added = [subject for subject, _ in done.registered]
        assert added == sorted(name for name, ids in stub.subjects.items() if ids != before.get(name)) != []
        session.retract(done.registered)
        assert stub.subjects == before
        for subject, schema_id in done.registered:
            stub.subjects.setdefault(subject, []).append(schema_id)


def test_subjects_that_cannot_be_deleted_are_named(stub: Stub) -> None:
    registry = open_registry(stub.url, {})
    stub.fault = lambda handler: send(handler, 403, {"error_code": 40301, "message": "not you"})
    with pytest.raises(RegistryError, match=r"refused subject t-key: .* not you"):
        registry.delete("t-key")


def test_a_task_requests_and_caches_ids_that_the_driver_did_not_know(stub: Stub) -> None:
    view = pickle.loads(pickle.dumps(open_registry(stub.url, {}).snapshot()))
    given = stub.register("t-value", {"schema": RECORD})
    decode = table.decoder(spec("AVRO", "A INT", schemas=view))
    data = b"\x00" + given.to_bytes(4, "big") + b"\x02\x0a"
    assert decode(data) == (5,)
    stub.fault = lambda handler: send(handler, 500, {})
    again = pickle.loads(pickle.dumps(view))
    assert table.decoder(spec("AVRO", "A INT", schemas=again))(data) == (5,)
    assert stub.asked.count(f"GET /schemas/ids/{given}") == 1


def test_an_unknown_id_is_an_error_of_the_record(stub: Stub) -> None:
    decode = table.decoder(spec("AVRO", "A INT", schemas=open_registry(stub.url, {}).snapshot()))
    with pytest.raises(SerdeError, match="9"):
        decode(b"\x00\x00\x00\x00\x09\x02\x0a")


def test_references_are_resolved(stub: Stub) -> None:
    registry = open_registry(stub.url, {})
    inner = '{"type":"record","name":"In","fields":[{"name":"X","type":"int"}]}'
    outer = '{"type":"record","name":"Out","fields":[{"name":"A","type":"In"}]}'
    stub.register("inner", {"schema": inner})
    given = registry.register("t-value", SchemaFormat.AVRO, outer, (SchemaReference("In", "inner", 1),))
    assert stub.schemas[given]["references"] == [{"name": "In", "subject": "inner", "version": 1}]
    decode = table.decoder(spec("AVRO", "A STRUCT<X INT>", schemas=registry.snapshot()))
    assert decode(b"\x00" + given.to_bytes(4, "big") + b"\x06") == ({"X": 3},)


def _slow(handler: BaseHTTPRequestHandler) -> bool:
    time.sleep(2)
    return True


def _dripping(handler: BaseHTTPRequestHandler) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)
    return True


FAULTS: dict[str, Callable[[BaseHTTPRequestHandler], bool]] = {
    "slow": _slow,
    "dripping": _dripping,
    "500": lambda handler: send(handler, 500, {"error_code": 50001, "message": f"broken {SECRET}"}),
    "429": lambda handler: send(handler, 429, {}),
    "html": lambda handler: send(handler, 200, b"<html>"),
    "no schema": lambda handler: send(handler, 200, {"id": 1}),
    "no id": lambda handler: send(handler, 200, {"schema": RECORD, "id": "x"}),
    "list": lambda handler: send(handler, 200, []),
    "unknown language": lambda handler: send(handler, 200, {"schema": RECORD, "id": 1, "schemaType": "XML"}),
    "closed": lambda handler: bool(handler.connection.close()) or True,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_statement_fails_fast_and_names_the_registry_but_no_secret(
    stub: Stub, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_remote, "CALL_SECONDS", 1.0)
    stub.fault = FAULTS[fault]
    config = {"timeout": "0.4", "ksql.schema.registry.basic.auth.user.info": f"me:{SECRET}"}
    session = Session(config=Config.of({}), registry=open_registry(stub.url, config))
    started = time.monotonic()
    with pytest.raises(RegistryError) as raised:
        session.execute(session.parse("CREATE STREAM S WITH (KAFKA_TOPIC='in', VALUE_FORMAT='AVRO');")[0])
    assert time.monotonic() - started < 3
    assert stub.url in raised.value.message
    assert SECRET not in raised.value.render() + repr(session.registry)
    assert session.catalog.sources == {}


def test_a_registry_that_is_down_is_unavailable() -> None:
    registry = open_registry("http://127.0.0.1:9,http://127.0.0.1:10", {})
    with pytest.raises(RegistryUnavailableError, match=r"127\.0\.0\.1:9"):
        registry.latest("t-value")


@pytest.mark.rules("E2.4")
def test_an_unavailable_registry_is_not_requested_for_every_record(stub: Stub) -> None:
    stub.fault = FAULTS["500"]
    decode = table.decoder(spec("AVRO", "A INT", schemas=open_registry(stub.url, {}).snapshot()))
    for number in range(5):
        with pytest.raises(RegistryUnavailableError):
            decode(b"\x00\x00\x00\x00" + bytes([number]) + b"\x02\x0a") if number else decode(
                b"\x00\x00\x00\x00\x09\x02"
            )
    assert len(stub.asked) <= 2


def test_it_is_requested_again_after_a_pause(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_remote, "PAUSE_SECONDS", 0.0)
    stub.register("t-value", {"schema": RECORD})
    registry = open_registry(stub.url, {})
    stub.fault = FAULTS["500"]
    with pytest.raises(RegistryUnavailableError):
        registry.latest("t-value")
    stub.fault = lambda handler: False
    assert registry.latest("t-value") is not None


def test_credentials_come_from_settings_or_url_and_rejections_are_reported(stub: Stub) -> None:
    stub.fault = lambda handler: send(handler, 401, {"error_code": 401, "message": f"not you, {SECRET}"})
    for registry in (
        open_registry(stub.url, {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": f"me:{SECRET}"}),
        open_registry(stub.url.replace("http://", f"http://me:{SECRET}@"), {}),
    ):
        with pytest.raises(RegistryError, match="refused subject t-value") as raised:
            registry.latest("t-value")
        assert stub.credentials[-1] is not None
        assert "me:" not in str(raised.value) + repr(registry)
    assert stub.credentials[0] == stub.credentials[-1]


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1; return the paths of certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "registry")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, now, now + dt.timedelta(days=1))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    files = folder / "registry.pem", folder / "registry.key"
    files[0].write_bytes(signed.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def test_a_registry_over_tls_needs_a_trusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_remote, "_cache", {})
    certificate, key = _certificate(tmp_path)
    stub = Stub()
    stub.register("t-value", {"schema": RECORD})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(stub))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}"
    try:
        assert open_registry(url, {"ssl.ca.location": str(certificate)}).latest("t-value") is not None
        with pytest.raises(RegistryUnavailableError, match="https"):
            open_registry(url, {}).latest("t-value")
        assert len(stub.asked) == 1
    finally:
        server.shutdown()
        server.server_close()


def test_a_rejected_schema_is_an_error_of_the_statement(stub: Stub) -> None:
    stub.fault = lambda handler: send(handler, 409, {"error_code": 409, "message": "not compatible"})
    with pytest.raises(RegistryError, match="not compatible"):
        open_registry(stub.url, {}).register("t-value", SchemaFormat.AVRO, RECORD)


def test_an_unexpected_id_is_an_error(stub: Stub) -> None:
    registry = open_registry(stub.url, {})
    with pytest.raises(RegistryError, match=r"assigned id 100 .* not 7"):
        registry.register("t-value", SchemaFormat.AVRO, RECORD, schema_id=7)


@pytest.mark.parametrize(
    ("url", "config", "message"),
    [
        ("ftp://x", {}, "Cannot open"),
        ("http://x", {"ssl.ca.location": "/no/such/file.pem"}, "Cannot open"),
        ("http://x", {"basic.auth.user.info": SECRET}, "Cannot open"),
        ("http://x", {"ssl.key.location": "k"}, "Cannot open"),
        ("http://x", {"timeout": SECRET}, "Cannot open"),
        ("http://x", {"schema.registry.ssl.truststore.location": SECRET}, "schema.registry.ssl.truststore.location"),
    ],
)
def test_invalid_settings_are_rejected_at_once(url: str, config: dict[str, str], message: str) -> None:
    with pytest.raises(RegistryError, match=message) as raised:
        open_registry(url, config)
    assert SECRET not in raised.value.render()


KEYED = (
    "CREATE STREAM S (K STRING KEY, A INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');"
    "CREATE STREAM O WITH (KAFKA_TOPIC='out', KEY_FORMAT='AVRO') AS SELECT * FROM S;"
)


def execute(stub: Stub, text: str) -> Session:
    session = Session(config=Config.of({}), registry=open_registry(stub.url, {}))
    for parsed in session.parse(text):
        session.execute(parsed)
    return session


def test_the_key_schema_of_a_sink_becomes_read_only_and_can_be_registered_again(stub: Stub) -> None:
    execute(stub, KEYED)
    assert stub.frozen == {"out-key"}
    registry_remote._cache.clear()
    execute(stub, KEYED)
    assert len(stub.subjects["out-key"]) == 1


def test_a_read_only_subject_rejects_another_key_schema(stub: Stub) -> None:
    execute(stub, KEYED)
    with pytest.raises(RegistryError, match="out-key"):
        execute(stub, KEYED.replace("K STRING", "K INT"))


def test_a_registry_without_modes_causes_a_warning(stub: Stub, caplog: pytest.LogCaptureFixture) -> None:
    def no_modes(handler: BaseHTTPRequestHandler) -> bool:
        return handler.command == "PUT" and send(handler, 422, {"error_code": 42204, "message": "not mutable"})

    stub.fault = no_modes
    session = execute(stub, KEYED)
    assert "O" in session.catalog.sources
    (warning,) = [
        each for each in caplog.records if each.levelname == "WARNING" and each.name.startswith("kestrel_sql")
    ]
    assert "out-key" in warning.getMessage()
    assert "mode.mutability" in warning.getMessage()
