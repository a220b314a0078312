"""Tests passwords and certificates.

The broker's error if they are wrong, a run if they are right, and no secret in any output.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from threading import Event, Thread

import pytest

from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.run import connect
from tests.kafka.helpers import await_rows, create, produce, read, spark_options, start
from tests.kafka.processes import ending
from tests.kafka.scenario import LEAN
from tests.kafka.secured import PASSWORD, Secured, files_with_secrets, login, tls_properties, write_properties

pytestmark = pytest.mark.spark

WRONG = "another-pw-that-nobody-may-see"

APP = """
CREATE STREAM S (K STRING KEY, G STRING, V INT) WITH (KAFKA_TOPIC='{0}s', VALUE_FORMAT='JSON');
INSERT INTO S (ROWTIME, K, G, V) VALUES (50, 'k9', 'g', 9);
CREATE STREAM F WITH (KAFKA_TOPIC='{0}f') AS SELECT * FROM S WHERE V > 1;
CREATE TABLE C WITH (KAFKA_TOPIC='{0}c') AS SELECT G, COUNT(*) AS N FROM F GROUP BY G;
PRINT {0}s FROM BEGINNING LIMIT 1;
"""


@pytest.mark.parametrize(
    ("listener", "mechanism", "password", "trusted", "said"),
    [
        ("sasl", "PLAIN", WRONG, None, "Invalid username or password"),
        ("sasl", "SCRAM-SHA-256", WRONG, None, "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("sasl", "SCRAM-SHA-512", PASSWORD, None, "Unsupported SASL mechanism"),
        ("tls", "PLAIN", WRONG, "ca", "Invalid username or password"),
        ("tls", "PLAIN", PASSWORD, "stranger", "certificate verify failed"),
        ("open", "PLAIN", PASSWORD, None, "SASL PLAIN mechanism handshake failed"),
    ],
)
def test_a_refusal_has_the_message_of_the_broker(
    secured: Secured, tmp_path: Path, listener: str, mechanism: str, password: str, trusted: str | None, said: str
) -> None:
    tls = (
        {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str({"ca": secured.ca, "stranger": secured.stranger}[trusted]),
        }
        if trusted
        else {}
    )
    file = write_properties(
        tmp_path / "client.properties",
        security_protocol="SASL_SSL" if trusted else "SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=login(mechanism, password),
        **tls,
    )
    servers = {"open": secured.open, "sasl": secured.sasl, "tls": secured.tls}[listener]
    told: list[str] = []
    with pytest.raises(EngineError) as caught:
        connect(KafkaConfig.of(servers, file), told.append, patience=60, stop=Event())
    assert caught.value.message.startswith(f"the broker {servers} refuses access: ")
    assert said in caught.value.message
    assert told == [], "waiting does not help"
    assert password not in caught.value.render()


@pytest.mark.usefixtures("impatient")
def test_an_open_client_at_a_secured_listener_is_not_left_in_the_dark(secured: Secured) -> None:
    with pytest.raises(EngineError, match=f"the broker {secured.tls} does not answer") as caught:
        connect(KafkaConfig(servers=secured.tls), lambda _: None, patience=0, stop=Event())
    assert "security.protocol" in str(caught.value.hint)


def test_a_certificate_that_is_not_there_is_named(secured: Secured) -> None:
    config = KafkaConfig(
        servers=secured.tls, properties={"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}
    )
    with pytest.raises(EngineError, match=r"the Kafka configuration is invalid: .*ssl\.ca\.location"):
        connect(config, lambda _: None, patience=60, stop=Event())


@pytest.mark.usefixtures("commands")
def test_a_wrong_password_ends_the_command_without_a_trace(
    secured: Secured, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "app.sql"
    script.write_text(APP.format(""), encoding="utf-8")
    file = write_properties(
        tmp_path / "client.properties",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=login("PLAIN", WRONG),
    )
    own = ["--bootstrap-servers", secured.sasl, "--checkpoint", str(tmp_path / "checkpoint")]
    assert main(["run", str(script), *own, "--kafka-config", str(file)]) == ExitCode.REFUSED
    out, said = capfd.readouterr()
    assert "Invalid username or password" in said
    assert "Traceback" not in said
    assert WRONG not in out + said


@pytest.mark.rules("E12.3")
@pytest.mark.usefixtures("commands")
def test_a_run_over_tls_works_until_ctrl_c(secured: Secured, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options, ended = _prepared("here_", secured, tmp_path), Event()

    def interrupt() -> None:
        await_rows(secured.open, ["here_c"], 2, 8)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=interrupt, daemon=True)
    thread.start()
    code = main(["run", str(tmp_path / "app.sql"), "--bootstrap-servers", secured.tls, *options])
    ended.set()
    thread.join()
    out, said = capfd.readouterr()
    assert code == ExitCode.OK, said
    _check("here_", secured, tmp_path, said + out)
    assert PASSWORD not in out + said


@pytest.mark.nightly
@pytest.mark.rules("E12.3")
def test_a_process_over_tls_works_until_ctrl_c_and_shows_no_secret(secured: Secured, tmp_path: Path) -> None:
    events, log = tmp_path / "events", tmp_path / "log"
    events.mkdir()
    conf = spark_options({"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()})
    options = [*_prepared("there_", secured, tmp_path), *LEAN, "--master", "local[1]", *conf]
    with ending(start(tmp_path / "app.sql", secured.tls, tmp_path / "checkpoint", *options, log=log)) as run:
        assert await_rows(secured.open, ["there_c"], 2, 8) == 9
        # A terminal tells all processes of the command.
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(60) == 0, log.read_text(encoding="utf-8")
    _check("there_", secured, tmp_path, log.read_text(encoding="utf-8"))
    assert any(path.stat().st_size for path in events.rglob("*") if path.is_file())
    assert files_with_secrets(log, events) == []


def _prepared(name: str, secured: Secured, folder: Path) -> list[str]:
    """Write script, properties and records; return the options of the run."""
    create(secured.open, 2, f"{name}s")
    produce(secured.open, f"{name}s", [(f"k{n}", json.dumps({"G": f"g{n % 2}", "V": n}), 100 + n) for n in range(10)])
    produce(secured.open, f"{name}s", [("bad", "{", 200)])
    (folder / "app.sql").write_text(APP.format(name), encoding="utf-8")
    options = ["--kafka-config", str(tls_properties(folder / "client.properties", secured))]
    options += ["--processing-log-topic", f"{name}log", "--json-progress", str(folder / "progress.json")]
    return [*options, "--checkpoint", str(folder / "checkpoint"), "--property", "auto.offset.reset=earliest"]


def _check(name: str, secured: Secured, folder: Path, said: str) -> None:
    _check_messages(name, said)
    assert {(key, value) for _, key, value, _ in read(secured.open, f"{name}c", 2)} >= {
        (b"g0", b'{"N":4}'),
        (b"g1", b'{"N":4}'),
        (b"g", b'{"N":1}'),
    }
    [(_, _, entry, _)] = read(secured.open, f"{name}log", 1)
    _check_entry(name, json.loads(entry or b""))
    _check_progress(name, folder / "progress.json")
    assert files_with_secrets(folder / "checkpoint", folder / "progress.json") == []


def _check_messages(name: str, said: str) -> None:
    steps = [
        "connecting to ",
        "connected; 5 statements",
        "planned",
        "running until Ctrl-C: CSAS_F_0, CTAS_C_1",
        f"CSAS_F_0: the record at {name}s, partition ",
        "1 bad record: CSAS_F_0 1",
    ]
    found = [said.find(step) for step in steps]
    assert found == sorted(found), said
    assert found[0] >= 0
    assert "rowtime: 1970/01/01" in said
    assert "Traceback" not in said


def _check_entry(name: str, entry: dict[str, object]) -> None:
    source = entry["source"]
    assert isinstance(source, dict)
    assert (source["topic"], source["partition"] in (0, 1), source["offset"] >= 0) == (f"{name}s", True, True)
    assert entry["level"] == "ERROR"
    assert str(entry["logger"]).startswith("processing.CSAS_F_0.")
    message = entry["message"]
    assert isinstance(message, dict)
    assert message["type"] == 0
    assert message["deserializationError"]["target"] == "value"
    assert message["deserializationError"]["topic"] == f"{name}s"
    assert len(message) == 2


def _check_progress(name: str, path: Path) -> None:
    last = {state["query"]: state for state in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    # The record that nobody can decode is one of 12 that went in; of the others, 9 are above 1.
    assert (last["CSAS_F_0"]["rows_in"], last["CSAS_F_0"]["rows_out"], last["CSAS_F_0"]["lag"]) == (
        12,
        9,
        {f"{name}s": 0},
    )
    assert (last["CTAS_C_1"]["rows_in"], last["CTAS_C_1"]["rows_out"], last["CTAS_C_1"]["lag"]) == (
        9,
        9,
        {f"{name}f": 0},
    )
    assert all(state["error"] == "" and state["time"] > 1_700_000_000_000 for state in last.values())
