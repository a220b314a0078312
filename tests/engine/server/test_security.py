"""Who gets in, and what they may do."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.transient import TransientQuery
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.http.listen import Tls
from kestrel_sql.server.open import Running, ServerSettings, memory_server
from kestrel_sql.server.security.open import SecuritySettings
from kestrel_sql.server.security.users import hash_password
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.statements import Query
from tests.engine.server.servers import http, ksql, sparkless_server

STREAM = "CREATE STREAM {0} (id INT KEY) WITH (KAFKA_TOPIC='{0}', VALUE_FORMAT='JSON', PARTITIONS=1);"
KEY = ECKey.generate_key("P-256", {"kid": "one"})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("guarded")
    roles = {"root": ["admin"], "reader": ["read:ORDERS*"], "writer": ["insert:ORDERS", "read"], "nobody": []}
    users = {
        name: {"password": hash_password(f"secret of {name}"), "roles": granted} for name, granted in roles.items()
    }
    (folder / "users.yaml").write_text(yaml.safe_dump(users))
    (folder / "jwks.json").write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    security = SecuritySettings(
        users=folder / "users.yaml",
        jwks=str(folder / "jwks.json"),
        issuer="us",
        audience="kestrel",
        audit_log=folder / "audit.jsonl",
    )
    with sparkless_server(security=security) as running:
        answer = as_user(running, "root", STREAM.format("orders") + STREAM.format("staff"))
        assert answer.status_code == 200, answer.text
        yield running
        assert "secret" not in (folder / "audit.jsonl").read_text()
        lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
        assert {"user", "time", "outcome", "statement"} == set(lines[0])
        assert {line["outcome"] for line in lines} == {"allowed", "refused"}


def as_user(running: Running, name: str, text: str) -> httpx.Response:
    return http.post(f"{running.url}/ksql", json={"ksql": text}, auth=(name, f"secret of {name}"))


@pytest.mark.rules("R13.2")
@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("reader", "DESCRIBE orders;", 200),
        ("reader", "DESCRIBE staff;", 403),
        ("reader", "LIST STREAMS;", 200),
        ("reader", "INSERT INTO orders (id) VALUES (1);", 403),
        ("reader", STREAM.format("orders_2"), 403),
        ("reader", "EXPLAIN SELECT * FROM staff EMIT CHANGES;", 403),
        ("reader", "DESCRIBE orders; DESCRIBE staff;", 403),
        ("writer", "INSERT INTO orders (id) VALUES (1);", 200),
        ("writer", "INSERT INTO staff (id) VALUES (1);", 403),
        ("writer", "TERMINATE ALL;", 403),
        ("writer", "ALTER SYSTEM 'auto.offset.reset' = 'latest';", 403),
        ("nobody", "LIST STREAMS;", 403),
        ("nobody", "SET 'auto.offset.reset' = 'earliest';", 200),
    ],
)
def test_roles_hold_for_sources(guarded: Running, name: str, text: str, status: int) -> None:
    answer = as_user(guarded, name, text)
    assert answer.status_code == status, answer.text
    if status == 403:
        assert answer.json()["error_code"] == 40300


@pytest.mark.rules("R13.2")
def test_queries_and_streams_of_rows_are_checked_too(guarded: Running) -> None:
    asked = {"sql": "SELECT * FROM staff EMIT CHANGES;"}
    assert http.post(f"{guarded.url}/query-stream", json=asked, auth=("reader", "secret of reader")).status_code == 403
    with httpx.Client(timeout=60, http1=False, http2=True, auth=("reader", "secret of reader")) as client:
        assert client.post(f"{guarded.url}/inserts-stream", content='{"target":"orders"}\n').status_code == 403
    assert http.post(f"{guarded.url}/ksql/terminate", json={}, auth=("writer", "secret of writer")).status_code == 403


@pytest.mark.rules("R13.1")
def test_without_credentials_only_probes_are_answered(guarded: Running) -> None:
    for header in (
        {},
        {"authorization": "Basic !"},
        {"authorization": "Basic " + base64.b64encode(b"root:wrong").decode()},
    ):
        refused = http.get(f"{guarded.url}/info", headers=header)
        assert (refused.status_code, refused.json()["error_code"]) == (401, 40100)
        assert refused.headers["www-authenticate"].startswith("Basic")
    assert http.get(f"{guarded.url}/healthcheck").status_code == 200
    assert http.get(f"{guarded.url}/ui").status_code == 401


def token(**claims: object) -> str:
    whole = {
        "sub": "robot",
        "iss": "us",
        "aud": "kestrel",
        "exp": int(time.time()) + 60,
        "kestrel_roles": ["read:ORDERS"],
    }
    return jwt.encode({"alg": "ES256", "kid": "one"}, {**whole, **claims}, KEY)


def bearer(running: Running, text: str, credentials: str) -> int:
    answer = http.post(f"{running.url}/ksql", json={"ksql": text}, headers={"authorization": f"Bearer {credentials}"})
    return answer.status_code


@pytest.mark.rules("R13.3")
def test_bearer_tokens(guarded: Running) -> None:
    assert bearer(guarded, "DESCRIBE orders;", token()) == 200
    assert bearer(guarded, "DESCRIBE staff;", token()) == 403
    assert bearer(guarded, "DESCRIBE orders;", token(exp=int(time.time()) - 3600)) == 401
    assert bearer(guarded, "DESCRIBE orders;", token(iss="them")) == 401
    assert bearer(guarded, "DESCRIBE orders;", token(aud="other")) == 401
    assert bearer(guarded, "DESCRIBE orders;", token(kestrel_roles=[])) == 403
    other = jwt.encode(
        {"alg": "ES256", "kid": "one"}, jwt.decode(token(), KEY).claims, ECKey.generate_key("P-256", {"kid": "one"})
    )
    assert bearer(guarded, "DESCRIBE orders;", other) == 401
    public = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
    forged = jwt.encode({"alg": "HS256", "kid": "one"}, jwt.decode(token(), KEY).claims, public)
    assert bearer(guarded, "DESCRIBE orders;", forged) == 401


@pytest.mark.rules("R13.4")
def test_pages_of_others_may_not_call(idle: Running) -> None:
    answer = http.post(f"{idle.url}/ksql", json={"ksql": "LIST STREAMS;"}, headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["error_code"]) == (403, 40300)
    own = http.post(f"{idle.url}/ksql", json={"ksql": "LIST STREAMS;"}, headers={"origin": idle.url})
    assert own.status_code == 200
    rebound = http.get(f"{idle.url}/info", headers={"host": "evil.example:8088"})
    assert rebound.status_code == 403


@pytest.mark.rules("R13.4")
def test_pages_that_are_named_may_call() -> None:
    with sparkless_server(security=SecuritySettings(origins=("http://good.example",))) as running:
        headers = {"origin": "http://good.example", "access-control-request-method": "POST"}
        preflight = http.options(f"{running.url}/ksql", headers=headers)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "http://good.example"
        answer = ksql(running.url, "LIST STREAMS;")
        assert "access-control-allow-origin" not in answer.headers


def _pull(running: Running) -> httpx.Response:
    return http.post(f"{running.url}/query", json={"ksql": "SELECT * FROM s LIMIT 0;"})


@pytest.mark.rules("R14.1", "R4.1")
def test_limits_of_requests() -> None:
    limits = Limits(body_bytes=2000, body_seconds=0.5, statements=3, pulls_per_second=1)
    with sparkless_server(limits=limits, config={"ksql.max.push.queries": 1}) as running:
        assert ksql(running.url, STREAM.format("s")).status_code == 200
        large = ksql(running.url, "LIST STREAMS;" + " " * 3000)
        assert (large.status_code, large.json()["error_code"]) == (413, 41300)
        # What comes after one too many is not looked at.
        assert "3 statements" in ksql(running.url, "LIST TYPES;" * 4 + "nonsense").json()["message"]
        assert _pull(running).status_code == 200
        # On a slow machine some come in a second of their own.
        refused = next(answer for answer in (_pull(running) for _ in range(50)) if answer.status_code != 200)
        assert (refused.status_code, refused.json()["error_code"]) == (429, 42900)
        push = {"sql": "SELECT * FROM s EMIT CHANGES;"}
        with http.stream("POST", f"{running.url}/query-stream", json=push):
            refused = http.post(f"{running.url}/query-stream", json=push)
            assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
            assert "ksql.max.push.queries" in refused.json()["message"]


@pytest.mark.rules("R14.1", "R4.1")
def test_of_two_push_queries_that_come_at_once_for_one_free_place_one_is_refused() -> None:
    planning = threading.Barrier(2, timeout=60)

    class Waiting(ServedEngine):
        """An engine that plans two queries at a time."""

        def plan(self, query: Query, config: Config, query_id: str) -> TransientQuery:
            """Wait for the other."""
            planning.wait()
            return super().plan(query, config, query_id)

    session = Session(config=Config.of({"ksql.max.push.queries": 1}))
    with (
        memory_server(Waiting(session), ServerSettings(port=0)) as running,
        ThreadPoolExecutor(2) as pool,
    ):
        assert ksql(running.url, STREAM.format("s")).status_code == 200

        def push(_: int) -> tuple[int, object]:
            asked = {"sql": "SELECT * FROM s EMIT CHANGES;"}
            with http.stream("POST", f"{running.url}/query-stream", json=asked) as answer:
                if answer.status_code == 200:
                    refused.wait(60)
                    return 200, None
                refused.set()
                return answer.status_code, json.loads(answer.read())["error_code"]

        refused = threading.Event()
        assert sorted(pool.map(push, range(2)), key=str) == [(200, None), (400, 40003)]


@pytest.mark.rules("R14.1", "R4.1")
def test_pull_queries_at_a_time_are_limited() -> None:
    with sparkless_server(limits=Limits(concurrent_pulls=0)) as running:
        assert ksql(running.url, STREAM.format("s")).status_code == 200
        refused = _pull(running)
        assert (refused.status_code, refused.json()["error_code"]) == (429, 42900)
        assert "concurrency limit" in refused.json()["message"]


@pytest.mark.rules("R14.2")
def test_a_body_that_never_comes_and_headers_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_sql.server.http.listen._IDLE_S", 1.0)
    with sparkless_server(limits=Limits(body_seconds=0.5)) as running:
        port = running.listener.port
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"POST /ksql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            assert b" 408 " in slow.recv(65536)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"GET /info HTTP/1.1\r\nHost: local")
            assert slow.recv(65536) == b""


@pytest.mark.rules("R13.5")
def test_tls_with_http_2_and_client_certificates(tmp_path: Path) -> None:
    for name in ("server", "client"):
        make = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost -addext"
            f" subjectAltName=DNS:localhost -keyout {tmp_path}/{name}.key -out {tmp_path}/{name}.pem"
        )
        subprocess.run(make.split(), check=True, capture_output=True)
    tls = Tls(certificate=tmp_path / "server.pem", key=tmp_path / "server.key", clients=tmp_path / "client.pem")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    with sparkless_server(tls=tls, checks_server_name=True) as running:
        url = f"https://localhost:{running.listener.port}/info"
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
            httpx.get(url, verify=trusted, timeout=60)
        trusted.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
        with httpx.Client(http2=True, verify=trusted, timeout=60) as client:
            answer = client.get(url)
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
            # The name of another host of this machine, over the same connection.
            refused = client.get(url, headers={"host": "127.0.0.1"})
            assert (refused.status_code, refused.json()["error_code"]) == (421, 42100)
            assert client.get(url).status_code == 200
        assert httpx.get(url, verify=trusted, timeout=60).http_version == "HTTP/1.1"


def test_files_that_cannot_be_read_are_named_once(tmp_path: Path) -> None:
    absent, broken = tmp_path / "absent", tmp_path / "broken"
    broken.write_text("a: [")
    for settings, said in (
        (SecuritySettings(users=absent), f"{absent} cannot be read: No such file or directory"),
        (SecuritySettings(users=broken), f"{broken} is not YAML: "),
    ):
        with pytest.raises(EngineError) as refused:
            settings.authenticate()
        assert refused.value.message.startswith(said)
        assert "Errno" not in refused.value.message
