from __future__ import annotations

import pytest

from kestrel_sql.spark.runtime.session import with_defaults


@pytest.mark.parametrize("given", ["", "-Xss4m"])
def test_a_jvm_collects_while_nothing_else_runs(given: str) -> None:
    assert with_defaults(given).startswith("-XX:+UseParallelGC ")
    assert with_defaults(given).endswith(given)


@pytest.mark.parametrize("given", ["-XX:+UseG1GC", "-Xss4m -XX:+UseSerialGC -Xlog:disable", "-XX:+UseZGC"])
def test_the_collector_of_a_user_is_kept(given: str) -> None:
    assert "UseParallelGC" not in with_defaults(given)
    assert with_defaults(given).endswith(f" {given}")


def test_what_a_user_says_of_the_compiler_comes_last_and_counts() -> None:
    given = "-XX:Tier4InvocationThreshold=7"
    assert with_defaults(given).index(given) > with_defaults(given).index("-XX:Tier4InvocationThreshold=50000")
