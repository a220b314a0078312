"""Session configuration."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import PropertyError
from kestrel_sql.planner.config import Config


def test_defaults_and_overrides() -> None:
    config = Config.of({"ksql.persistence.default.format.value": "json", "ksql.suppress.enabled": False, "x": None})
    assert (config.default_key_format, config.default_value_format) == ("KAFKA", "JSON")
    assert config.flag("ksql.suppress.enabled") is False
    assert config.wrap_single_values is None
    assert config.pseudo_column_version == 1
    assert "x" not in config


def test_setting_and_unsetting() -> None:
    config = (
        Config().with_property("ksql.functions.collect_list.limit", "3").with_property("auto.offset.reset", "earliest")
    )
    assert config["auto.offset.reset"] == "earliest"
    assert config["ksql.functions.collect_list.limit"] == "3"
    assert config.without_property("auto.offset.reset")["auto.offset.reset"] == "latest"


def test_the_prefix_of_kafka_streams_is_looked_past_and_the_bare_name_wins() -> None:
    prefixed = Config().with_property("ksql.streams.auto.offset.reset", "earliest")
    assert prefixed["auto.offset.reset"] == "earliest"
    assert prefixed.with_property("auto.offset.reset", "latest")["auto.offset.reset"] == "latest"


@pytest.mark.rules("L8.2")
@pytest.mark.parametrize(
    ("name", "value", "gist"),
    [
        ("ksql.service.id", "x", "Cannot override property 'ksql.service.id'"),
        ("no.such.thing", "x", "Not recognizable as ksql, streams, consumer, or producer property: 'no.such.thing'"),
        ("ksql.lambdas.enabled", "maybe", "Expected value to be either true or false"),
        ("ksql.lambdas.enabled", "yes", "Expected value to be either true or false"),
        ("auto.offset.reset", "earlyest", "configuration auto.offset.reset: String must be one of: earliest, latest"),
        ("ksql.streams.auto.offset.reset", "zz", "Invalid value zz for configuration auto.offset.reset"),
        ("processing.guarantee", "sometimes", "String must be one of: at_least_once, exactly_once_v2"),
        ("cache.max.bytes.buffering", "x", "Not a number of type LONG"),
        ("cache.max.bytes.buffering", "-1", "Value must be at least 0"),
        ("cache.max.bytes.buffering", "9223372036854775808", "Not a number of type LONG"),
        ("num.stream.threads", "2147483648", "Not a number of type INT"),
        ("commit.interval.ms", "1.5", "Not a number of type LONG"),
        ("consumer.max.poll.records", "0", "configuration max.poll.records: Value must be at least 1"),
        ("ksql.streams.producer.acks", "7", "configuration acks: String must be one of: all, -1, 0, 1"),
        ("sasl.login.refresh.window.jitter", "0.3", "Value must be no more than 0.25"),
        ("consumer.foo", "x", "Not recognizable"),
        ("topic.foo", "x", "Not recognizable"),
        ("ksql.streams.ksql.suppress.enabled", "true", "Not recognizable"),
        ("ksql.foo", "x", "Not recognizable"),
    ],
)
def test_properties_that_a_session_cannot_set(name: str, value: str, gist: str) -> None:
    with pytest.raises(PropertyError) as caught:
        Config().with_property(name, value)
    assert gist in caught.value.message


@pytest.mark.rules("L8.2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("application.id", "a"),
        ("enable.auto.commit", "TRUE"),
        ("group.id", "g"),
        ("key.deserializer", "org.example.Deserializer"),
        ("commit.interval.ms", " 5 "),
        ("num.stream.threads", "+4"),
        ("security.protocol", "ssl"),
        ("ksql.streams.producer.linger.ms", "5"),
        ("ksql.functions.my.setting", "x"),
    ],
)
def test_properties_of_kafka_that_a_session_can_set(name: str, value: str) -> None:
    assert Config().with_property(name, value)[name] == value


def test_a_name_that_is_nearly_right_is_proposed() -> None:
    with pytest.raises(PropertyError) as caught:
        Config().with_property("auto.offset.rest", "earliest")
    assert caught.value.hint == "did you mean auto.offset.reset?"


@pytest.mark.rules("L8.3")
def test_denied_by_the_server() -> None:
    config = Config.of({"ksql.properties.overrides.denylist": "auto.offset.reset, linger.ms"})
    with pytest.raises(PropertyError, match=r"Cannot override property 'linger\.ms'"):
        config.without_property("linger.ms")


def test_a_number_that_is_none_is_refused_by_the_name_of_its_property() -> None:
    assert Config.of({"ksql.max.push.queries": " 7 "}).integer("ksql.max.push.queries") == 7
    with pytest.raises(
        PropertyError, match=r"Invalid value x for configuration ksql\.max\.push\.queries: Not a number"
    ):
        Config.of({"ksql.max.push.queries": "x"}).integer("ksql.max.push.queries")
