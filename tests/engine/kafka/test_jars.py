from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector import jars, maven
from kestrel_sql.kafka.connector.maven import open_downloader

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1</version>{dependencies}</project>
"""
DEPENDENCY = """<dependencies><dependency>
<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1</version></dependency></dependencies>"""


def publish(repository: Path, name: str, needs: str = "", *, with_jar: bool = True) -> None:
    folder = repository / "org" / "example" / name / "1"
    folder.mkdir(parents=True)
    dependencies = DEPENDENCY.format(name=needs) if needs else ""
    (folder / f"{name}-1.pom").write_text(POM.format(name=name, dependencies=dependencies), encoding="utf-8")
    if with_jar:
        with zipfile.ZipFile(folder / f"{name}-1.jar", "w") as jar:
            jar.writestr("content", name)


@pytest.mark.spark
def test_jars_come_from_the_repositories_that_are_named_and_never_from_the_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Maven build leaves descriptions without jars in ~/.m2, and Ivy's cache remembers them forever."""
    home, repository, downloads = tmp_path / "home", tmp_path / "repository", tmp_path / "downloads"
    publish(home / ".m2" / "repository", "connector", with_jar=False)
    publish(home / ".m2" / "repository", "part")
    publish(repository, "connector", needs="part")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={home}")
    with open_downloader([f"{(tmp_path / 'empty').as_uri()}/", f"{repository.as_uri()}/"]) as downloader:
        # The part is in the local repository only.
        with pytest.raises(EngineError, match=r"no Maven repository gave org\.example:connector:1: "):
            downloader.download(["org.example:connector:1"], downloads)
        assert not downloads.exists()
        publish(repository, "part")
        found = downloader.download(["org.example:connector:1"], downloads)
        assert [jar.name for jar in found] == ["org.example_connector-1.jar", "org.example_part-1.jar"]
        assert sorted(downloads.rglob("*.jar")) == sorted(found), "each jar is there once"
        # Of several coordinates, exactly these.
        alone = downloader.download(["org.example:connector:1", "org.example:connector:1"], downloads)
        assert [jar.name for jar in alone] == ["org.example_connector-1.jar"]


@pytest.mark.spark
def test_a_jvm_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a Java that does not start is replaced, in the folder of this environment and for all tests.
    maven.prepare_environment()
    monkeypatch.setattr(maven, "prepare_environment", lambda: None)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xss1k")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with pytest.raises(EngineError, match=r"the JVM that downloads jars did not start: .*-Xss1k"), open_downloader([]):
        pass
    assert os.environ.get("SPARK_LOCAL_IP") is None, "a driver on a cluster would listen on the loopback"


class Repositories:
    """Downloads without a JVM: `coordinates` can be had, and every call is counted.

    The first `failing` of them fail.
    """

    def __init__(self, *coordinates: str) -> None:
        self.coordinates = set(coordinates)
        self.asked: list[str] = []
        self.failing = 0

    @contextmanager
    def open(self, repositories: Sequence[str]) -> Iterator[Repositories]:
        yield self

    def download(
        self, coordinates: Sequence[str], folder: Path, excluded: Sequence[str] | None = None
    ) -> tuple[Path, ...]:
        self.asked.append(coordinates[0])
        if coordinates[0] not in self.coordinates or len(self.asked) <= self.failing:
            raise EngineError(f"no Maven repository gave {', '.join(coordinates)}: not found")
        folder.mkdir(parents=True, exist_ok=True)
        found = tuple(folder / f"{each}.jar" for each in coordinates)
        for each in found:
            each.write_bytes(b"")
        return found


OWN = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{jars.pyspark.__version__}"
OLDER = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{jars.SEEN_TO_WORK}"


@pytest.fixture
def having(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Repositories]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for setting in (jars.CONNECTOR_SETTING, jars.BROKER_SETTING, jars.REPOSITORIES_SETTING):
        monkeypatch.delenv(setting, raising=False)

    def make(*coordinates: str) -> Repositories:
        repositories = Repositories(*coordinates)
        monkeypatch.setattr(jars, "open_downloader", repositories.open)
        return repositories

    return make


def test_the_connector_of_pyspark_is_taken_where_there_is_one_and_asked_for_once(
    having: Callable[..., Repositories],
) -> None:
    repositories = having(OWN, OLDER)
    assert jars.connector_jars().note == ""
    assert len(jars.connector_jars().paths) == 1
    assert repositories.asked == [OWN]


def test_an_older_connector_is_used_with_a_note_and_remembered(having: Callable[..., Repositories]) -> None:
    repositories = having(OLDER)
    first = jars.connector_jars()
    assert (
        first.note == f"no Maven repository has Spark's Kafka connector {jars.pyspark.__version__} yet: "
        f"using {jars.SEEN_TO_WORK}, which works with it"
    )
    assert "\n" not in first.note
    assert len(first.paths) == 4
    assert first.setting.count(",") == 3
    assert jars.connector_jars() == first
    assert repositories.asked == [OWN, OLDER]


def test_a_read_only_folder_gives_what_it_has_and_says_what_it_has_not(
    having: Callable[..., Repositories], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories = having(OLDER)
    found = jars.connector_jars()
    (memory,) = (tmp_path / "kestrel" / "jars").glob("*.json")
    known = json.loads(memory.read_text(encoding="utf-8"))
    memory.write_text(json.dumps(known | {"found": 0}), encoding="utf-8")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert jars.connector_jars() == found, "nothing newer can be stored there"
    with pytest.raises(EngineError, match="does not have the jars of a run, and it is read-only"):
        jars.broker_jars()
    found.paths[0].unlink()
    with pytest.raises(EngineError, match="does not have the jars of a run, and it is read-only"):
        jars.connector_jars()
    assert repositories.asked == [OWN, OLDER]


def test_after_a_week_the_connector_of_pyspark_is_looked_for_again(
    having: Callable[..., Repositories], tmp_path: Path
) -> None:
    repositories = having(OLDER)
    older = jars.connector_jars()

    def age() -> None:
        (memory,) = (tmp_path / "kestrel" / "jars").glob("*.json")
        known = json.loads(memory.read_text(encoding="utf-8"))
        memory.write_text(json.dumps(known | {"found": known["found"] - 8 * 24 * 3600}), encoding="utf-8")

    age()
    assert jars.connector_jars() == older, "without a network the one that was found stays"
    assert jars.connector_jars() == older
    assert repositories.asked.count(OLDER) == 1
    age()
    repositories.coordinates.add(OWN)
    assert jars.connector_jars().note == ""


def test_a_repository_that_fails_is_asked_once_more(having: Callable[..., Repositories]) -> None:
    repositories = having(OWN, OLDER)
    repositories.failing = 2
    assert jars.connector_jars().note == ""
    assert repositories.asked == [OWN, OLDER, OWN]


def test_without_any_connector_the_first_reason_is_given(having: Callable[..., Repositories]) -> None:
    repositories = having()
    with pytest.raises(EngineError, match=f"no Maven repository gave {OWN}: not found") as refused:
        jars.connector_jars()
    assert (
        refused.value.hint
        == "is the network there? KESTREL_CONNECTOR_JARS names other coordinates, KESTREL_MAVEN_REPOSITORIES other"
        " repositories"
    )
    assert repositories.asked == [OWN, OLDER] * 2


@pytest.mark.parametrize("memory", ["", "[]", '{"jars": ["/nowhere.jar"], "note": "", "found": 0}', '{"jars": 1}', "{"])
def test_a_damaged_memory_is_no_memory(having: Callable[..., Repositories], tmp_path: Path, memory: str) -> None:
    having(OWN)
    jars.connector_jars()
    (file,) = (tmp_path / "kestrel" / "jars").glob("*.json")
    file.write_text(memory, encoding="utf-8")
    assert jars.connector_jars().paths[0].exists()


def test_coordinates_of_the_environment_are_taken_as_they_are(
    having: Callable[..., Repositories], monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories = having("a:b:1")
    monkeypatch.setenv(jars.CONNECTOR_SETTING, "a:b:1, c:d:2")
    assert [path.name for path in jars.connector_jars().paths] == ["a:b:1.jar", "c:d:2.jar"]
    monkeypatch.setenv(jars.CONNECTOR_SETTING, "a:b")
    with pytest.raises(EngineError, match="KESTREL_CONNECTOR_JARS must list Maven coordinates, got a:b"):
        jars.connector_jars()
    assert repositories.asked == ["a:b:1"]


def test_hadoop_reaches_s3_with_its_own_version() -> None:
    found = [*(Path(jars.pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")]
    assert [path.name for path in found] == [f"hadoop-client-api-{jars.HADOOP}.jar"]
