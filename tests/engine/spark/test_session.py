from __future__ import annotations

import pytest

from engine.spark.session import with_collector


@pytest.mark.parametrize(("given", "options"), [("", "-XX:+UseParallelGC"), ("-Xss4m", "-XX:+UseParallelGC -Xss4m")])
def test_a_jvm_collects_while_nothing_else_runs(given: str, options: str) -> None:
    assert with_collector(given) == options


@pytest.mark.parametrize("given", ["-XX:+UseG1GC", "-Xss4m -XX:+UseSerialGC -Xlog:disable", "-XX:+UseZGC"])
def test_the_collector_of_a_user_is_kept(given: str) -> None:
    assert with_collector(given) == given
