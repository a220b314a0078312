"""Releases of Spark that are not supported are refused by name."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.spark import releases
from kestrel_sql.spark.runtime.session import open_session


@pytest.mark.parametrize("release", ["4.1.0", "4.2.1", "4.3.0", "4.3.1.dev0"])
def test_supported_releases(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    releases.check_release()


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5", "4.4.0", "5.0.0"])
def test_others_are_refused_before_spark_starts(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    with pytest.raises(EngineError) as caught:
        open_session()
    assert caught.value.message == f"PySpark {release} does not run queries"
    assert caught.value.hint == "pip install 'pyspark>=4.1,<4.4'"


def test_a_broker_needs_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    with pytest.raises(EngineError, match=r"PySpark 4\.1\.4 does not run queries on a broker"):
        releases.check_release(releases.BROKER_RELEASES)


def test_the_spark_of_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert releases.found_spark() == f"{pyspark.__version__}, in {tmp_path}"
    (tmp_path / "RELEASE").write_text("Spark 4.2.1 (git revision abc) built for Hadoop 3.5.0\n", encoding="utf-8")
    with pytest.raises(EngineError, match=r"is 4\.2\.1, and the package pyspark"):
        releases.found_spark()
