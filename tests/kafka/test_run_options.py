from __future__ import annotations

import argparse
import os
import signal
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.cli.options import add_script_options
from kestrel_sql.cli.registry_options import registry_of
from kestrel_sql.cli.run_kafka import add_kafka_options, run_on_broker
from kestrel_sql.cli.signals import stop_on_signals
from kestrel_sql.errors import EngineError, RegistryMissingError
from kestrel_sql.formats.registry.remote import RemoteRegistry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.kafka.sink.sink import Delivery
from kestrel_sql.session.session import Session


def options(*words: str, settings: tuple[tuple[str, str], ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_script_options(parser)
    add_kafka_options(parser)
    return parser.parse_args(
        [*words], argparse.Namespace(set=list(settings), input=[], output=None, functions=[], fail_on=[], format=None)
    )


def test_the_registry_is_that_of_the_url() -> None:
    settings = (("ksql.schema.registry.basic.auth.user.info", "me:secret"), ("auto.offset.reset", "earliest"))
    found = registry_of(options("--schema-registry", "http://localhost:1", settings=settings))
    assert isinstance(found, RemoteRegistry)
    assert "secret" not in repr(found)


@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
@pytest.mark.rules("F8.17")
def test_without_a_url_what_needs_a_registry_is_refused(format: str) -> None:
    session = Session(registry=registry_of(options(settings=(("auto.offset.reset", "earliest"),))))
    (plain,) = session.parse("CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
    session.execute(plain)
    for text in (
        f"CREATE STREAM A (V INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='{format}');",
        f"CREATE STREAM A WITH (KAFKA_TOPIC='a', VALUE_FORMAT='{format}');",
        f"CREATE STREAM A WITH (KAFKA_TOPIC='a', VALUE_FORMAT='{format}', VALUE_SCHEMA_ID=1);",
        f"CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC='a', KEY_FORMAT='{format}', VALUE_FORMAT='JSON');",
        f"CREATE STREAM A WITH (VALUE_FORMAT='{format}') AS SELECT * FROM S;",
        f"CREATE STREAM A WITH (KEY_FORMAT='{format}') AS SELECT * FROM S;",
        f"CREATE TABLE A WITH (FORMAT='{format}') AS SELECT V, COUNT(*) AS N FROM S GROUP BY V;",
    ):
        (parsed,) = session.parse(text)
        with pytest.raises(RegistryMissingError, match="needs a schema registry, and none is configured"):
            session.execute(parsed)
    assert list(session.catalog.sources) == ["S"]


def test_settings_without_a_registry_are_refused() -> None:
    with pytest.raises(EngineError, match=r"ksql\.schema\.registry\.timeout is a setting of a schema registry"):
        registry_of(options(settings=(("ksql.schema.registry.timeout", "5"),)))


def test_every_option_reaches_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Application] = []

    def run(application: Application, *texts: str) -> bool:
        seen.append(application)
        return True

    monkeypatch.setattr(Application, "run", run)
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=elsewhere:1\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n", encoding="utf-8"
    )
    words = [
        "--bootstrap-servers",
        "b:9092",
        "--checkpoint",
        str(tmp_path / "c"),
        "--kafka-config",
        str(file),
        "--until-caught-up",
    ]
    words += ["--delivery", "at-least-once", "--batch-records", "7", "--master", "local[3]", "--patience", "9"]
    words += [
        "--spark-conf",
        "a=b",
        "--spark-conf",
        "c=d=e",
        "--processing-log-topic",
        "log",
        "--json-progress",
        str(tmp_path / "p"),
    ]
    words += ["--grace", "8", "--health-file", str(tmp_path / "health"), "--log-format", "json"]
    given = options(*words, settings=(("auto.offset.reset", "earliest"), ("ksql.timestamp.throw.on.invalid", "true")))
    assert run_on_broker([], given, Console(), Console(file=StringIO()))
    [application] = seen
    assert application.settings == RunSettings(
        config=KafkaConfig(
            servers="b:9092", properties={"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
        ),
        checkpoint=tmp_path / "c",
        until_caught_up=True,
        delivery=Delivery.AT_LEAST_ONCE,
        batch_records=7,
        master="local[3]",
        spark={"a": "b", "c": "d=e"},
        patience=9.0,
        grace=8.0,
    )
    assert application.log_topic == "log"
    assert '"state": "stopped"' in (tmp_path / "health").read_text(encoding="utf-8")
    assert dict(application.session.config.overrides) == {
        "auto.offset.reset": "earliest",
        "ksql.timestamp.throw.on.invalid": "true",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bootstrap-servers", "b:1"], "--checkpoint is missing"),
        (["--kafka-config", "/nowhere", "--checkpoint", "c"], "/nowhere cannot be read"),
        (["--bootstrap-servers", "b:1", "--checkpoint", "c", "--property", "colour=red"], "colour"),
        (
            ["--bootstrap-servers", "b:1", "--checkpoint", "c", "--json-progress", "/no/where"],
            "/no/where cannot be written",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    script = tmp_path / "app.sql"
    script.write_text("SHOW TOPICS;", encoding="utf-8")
    assert main(["run", str(script), *words]) == ExitCode.REFUSED
    assert said in " ".join(capsys.readouterr().err.split())


MEMORY_ONLY = [
    (["--checkpoint", "c"], "--checkpoint has"),
    (["--health-file", "h", "--grace", "25"], "--health-file, --grace have"),
    (["--batch-records", "7"], "--batch-records has"),
    (["--patience", "60"], "--patience has"),
    (["--share-sources"], "--share-sources has"),
    (["--delivery", "exactly-once"], "--delivery has"),
    (["--processing-log-topic", "t"], "--processing-log-topic has"),
    (["--metrics", "1"], "--metrics has"),
    (["--until-caught-up"], "--until-caught-up has"),
    (["--log-format", "json"], "--log-format has"),
    (["--master", "local[1]", "--spark-conf", "a=b"], "--master, --spark-conf have"),
    (["--input-shape", "plain"], "--input-shape has"),
    (["--bootstrap-servers", "b:1", "--checkpoint", "c", "--input", "t=f"], "--input has"),
    (["--bootstrap-servers", "b:1", "--checkpoint", "c", "--output", "o"], "--output has"),
]


@pytest.mark.parametrize(("words", "said"), MEMORY_ONLY)
def test_an_option_without_effect_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "app.sql"
    script.write_text("SHOW TOPICS;", encoding="utf-8")
    assert main(["run", str(script), *words]) == ExitCode.USAGE
    assert f"{said} no effect" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shell", "--execute", "x", "--user", "u"], "--user has no effect without --server"),
        (["shell", "--execute", "x", "--history", "f"], "--history has no effect without a prompt"),
        (["shell", "--execute", "x", "--input-shape", "plain"], "--input-shape has no effect without --input"),
        (
            ["shell", "--server", "http://h:1", "--execute", "x", "--input", "t=f"],
            "--input has no effect with --server",
        ),
        (["serve", "--checkpoint", "c", "--adopt"], "--checkpoint, --adopt have no effect over topics in memory"),
        (["serve", "--client-ca", "f"], "--client-ca has no effect without --tls-certificate"),
        (["serve", "--tls-key", "f"], "--tls-key has no effect without --tls-certificate"),
        (["serve", "--tls-certificate", "f"], "--tls-certificate has no effect without --tls-key"),
        (["state", "ls", "c", "--spark-conf", "a=b"], "--spark-conf has no effect on a checkpoint in a folder"),
        (["serve", "--jwt-issuer", "i"], "--jwt-issuer has no effect without --jwks"),
    ],
)
def test_other_commands_refuse_what_has_no_effect(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(words) == ExitCode.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--checkpoint", "s3://bucket/c"],
        ["--checkpoint", "s3a:bucket"],
        ["--delivery", "twice"],
        ["--batch-records", "0"],
        ["--patience", "x"],
        ["--grace", "x"],
        ["--metrics", "here"],
        ["--metrics", "here:0"],
        ["--log-format", "xml"],
        ["--spark-conf", "a"],
    ],
)
def test_values_that_are_none_are_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        options(*words)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end_and_a_second_interrupt_does_not_wait(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = stop_on_signals()
        os.kill(os.getpid(), number)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
