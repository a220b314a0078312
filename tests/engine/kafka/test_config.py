from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.properties_file import parse_properties

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="p\\"q;r";'
SECRET = "hunter2"


def config(**properties: str) -> KafkaConfig:
    return KafkaConfig(
        servers="b:9092", properties={name.replace("_", "."): value for name, value in properties.items()}
    )


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = "# c\n! c\na=1\n  b : 2\nc 3\nlong = x \\\n   y\nempty\nesc\\=aped=\\u0041\\t\\z\nwin=C:\\\\x\n"
    read = {"a": "1", "b": "2", "c": "3", "long": "x y", "empty": "", "esc=aped": "A\tz", "win": "C:\\x"}
    assert parse_properties(text) == read


@pytest.mark.parametrize("text", ["=x", "a=\\u12"])
def test_a_bad_line_is_named_by_its_number(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 has"):
        parse_properties(text)


def test_a_java_login_is_translated_for_both_clients() -> None:
    given = config(security_protocol="sasl_ssl", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    assert given.client()["sasl.username"] == "ann"
    assert given.client()["sasl.password"] == 'p"q;r'
    assert given.client()["security.protocol"] == "SASL_SSL"
    assert given.spark()["kafka.sasl.jaas.config"] == PLAIN
    assert given.spark()["kafka.bootstrap.servers"] == "b:9092"


def test_a_native_login_is_translated_for_both_clients() -> None:
    given = config(security_protocol="SASL_SSL", sasl_mechanisms="PLAIN", sasl_username="ann", sasl_password='p"q;r')
    assert given.spark()["kafka.sasl.jaas.config"] == PLAIN
    assert "kafka.sasl.password" not in given.spark()
    assert given.client()["sasl.password"] == 'p"q;r'


def test_scram_has_a_login_module_of_its_own() -> None:
    given = config(sasl_mechanism="SCRAM-SHA-512", sasl_username="a", sasl_password="b")
    assert "scram.ScramLoginModule" in given.spark()["kafka.sasl.jaas.config"]


def test_pem_files_are_translated_for_both_clients() -> None:
    java = config(
        ssl_truststore_type="PEM", ssl_truststore_location="/ca", ssl_keystore_type="PEM", ssl_keystore_location="/me"
    )
    files = {"ssl.ca.location": "/ca", "ssl.certificate.location": "/me", "ssl.key.location": "/me"}
    assert java.client() == {**config().client(), **files}
    native = config(ssl_ca_location="/ca", ssl_certificate_location="/me", ssl_key_location="/me")
    assert native.spark() == java.spark()


@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "sasl.client.callback.handler.class"])
def test_a_security_property_is_never_dropped(name: str) -> None:
    with pytest.raises(EngineError, match=name.replace(".", r"\.")):
        KafkaConfig(servers="b", properties={name: "x"}).client()


def test_a_java_key_store_is_refused_with_a_way_out() -> None:
    with pytest.raises(EngineError) as caught:
        config(ssl_truststore_location="/x.jks").client()
    assert "PEM" in caught.value.render()


def test_tuning_of_a_java_client_is_left_out() -> None:
    assert config(fetch_max_bytes="7").client() == config().client()
    assert config(fetch_max_bytes="7").spark()["kafka.fetch.max.bytes"] == "7"


def test_no_secret_is_shown() -> None:
    given = config(
        sasl_jaas_config=SECRET, sasl_password=SECRET, ssl_key_password=SECRET, anything=SECRET, client_id="me"
    )
    assert SECRET not in f"{given} {given!r} {[given]}"
    assert "client.id" in repr(given)
    assert "me" in repr(given)


def test_the_file_may_name_the_servers(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=f:1\nclient.id=x\n")
    assert KafkaConfig.of(None, file) == KafkaConfig(servers="f:1", properties={"client.id": "x"})
    assert KafkaConfig.of("g:2", file).servers == "g:2"


@pytest.mark.parametrize("content", [None, b"\xff", "=hunter2"])
def test_an_unreadable_file_is_named_without_its_content(tmp_path: Path, content: bytes | str | None) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(EngineError, match=r"client\.properties") as caught:
        KafkaConfig.of("b", file)
    assert SECRET not in caught.value.render()


def test_without_servers_there_is_a_hint() -> None:
    with pytest.raises(EngineError) as caught:
        KafkaConfig.of(None)
    assert "--bootstrap-servers" in caught.value.render()
