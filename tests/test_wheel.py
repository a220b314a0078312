"""The wheel works by itself, in an environment of its own, away from the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.environments import ROOT, Environment, add_extra, build_wheel, install, install_from_the_network

APP = """
CREATE STREAM ORDERS (ID INT KEY, AMOUNT INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM LARGE WITH (KAFKA_TOPIC='large') AS SELECT ID, AMOUNT * 2 AS TWICE FROM ORDERS WHERE AMOUNT > 5;
"""
CASES = """
tests:
  - name: small orders are dropped
    statements:
{statements}
    inputs:
      - {{topic: orders, key: 1, value: {{AMOUNT: 5}}}}
      - {{topic: orders, key: 2, value: {{AMOUNT: 6}}}}
    outputs:
      - {{topic: large, key: 2, value: {{TWICE: 12}}}}
"""
CONFIGURATION = '[tool.pytest.ini_options]\nqtt_cases = ["test-cases"]\n'


# One environment first lacks the extra and then has it. Tests of one mark run in the order of the file.
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheel, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def full(base: Environment) -> Environment:
    return add_extra(base, "qtt")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project of three files."""
    (tmp_path / "app.sql").write_text(APP)
    (tmp_path / "test-cases").mkdir()
    statements = "\n".join(f"      - {line}" for line in APP.strip().splitlines())
    (tmp_path / "test-cases" / "a.yaml").write_text(CASES.format(statements=statements))
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    return tmp_path


def test_the_wheel_holds_all_files_of_the_packages_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = next(name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "engine", "qtt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert names == {path.partition("/")[2] for path in tracked.stdout.split() if (ROOT / path).is_file()}
    assert {"kestrel_sql/py.typed", "kestrel_qtt/py.typed"} < names


def test_the_engine_is_installed_without_the_harness_s_packages(base: Environment, tmp_path: Path) -> None:
    packages = ["kestrel_qtt.load", "pytest", "xdist", "fastjsonschema"]
    code = f"for name in {packages}:\n  try: __import__(name)\n  except ModuleNotFoundError as error: print(error.name)"
    done = base.run("python", "-c", code, cwd=tmp_path)
    assert done.stdout.splitlines() == ["fastjsonschema", "pytest", "xdist", "fastjsonschema"], done.stderr


def test_qtt_without_the_extra_says_what_to_install(base: Environment, project: Path) -> None:
    done = base.run("qtt", "run", "test-cases", cwd=project)
    assert done.returncode == 2
    needed = "the harness needs the package fastjsonschema, which pip install 'kestrel-sql[qtt]' brings"
    assert done.stderr == f"qtt: {needed}\n"


def assert_packages_come_from(environment: Environment, folder: Path) -> None:
    code = (
        "import sys, kestrel_sql, kestrel_qtt; print(*kestrel_sql.__path__, *kestrel_qtt.__path__, *sys.path,"
        " sep='\\n')"
    )
    done = environment.run("python", "-c", code, cwd=folder)
    engine, harness, *path = done.stdout.splitlines()
    assert [engine, harness] == [str(environment.packages / package) for package in ("kestrel_sql", "kestrel_qtt")]
    assert not any(Path(folder).is_relative_to(ROOT) for folder in path if folder)


def assert_the_shell_answers(environment: Environment, folder: Path) -> None:
    asked = "INSERT INTO ORDERS VALUES (1, 6); SELECT TWICE FROM LARGE EMIT CHANGES LIMIT 1; SHOW FUNCTIONS;"
    done = environment.run("kestrel", "shell", "--execute", APP + asked, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"TWICE.*\b12\b.*SUBSTRING", done.stdout, re.DOTALL), done.stdout


def assert_the_script_runs(environment: Environment, project: Path) -> None:
    records = [{"key": n, "value": {"AMOUNT": n}} for n in (5, 6)]
    (project / "orders.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    done = environment.run(
        "kestrel", "run", "app.sql", "--input", "orders=orders.jsonl", "--output", "out", cwd=project
    )
    assert done.returncode == 0, done.stderr
    (line,) = (project / "out" / "large.jsonl").read_text().splitlines()
    assert json.loads(line)["value"] == {"TWICE": 12}


def assert_the_cases_pass(environment: Environment, project: Path) -> None:
    done = environment.run("python", "-m", "pytest", "-v", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test-cases/a.yaml::small-orders-are-dropped PASSED" in done.stdout


def test_the_engine_works_without_the_harness_s_packages(base: Environment, tmp_path: Path) -> None:
    assert_packages_come_from(base, tmp_path)
    asked = APP.strip().splitlines()[0] + "DESCRIBE ORDERS; SHOW FUNCTIONS;"
    done = base.run("kestrel", "shell", "--execute", asked, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"AMOUNT.*SUBSTRING", done.stdout, re.DOTALL), done.stdout


@pytest.mark.nightly
def test_queries_run_without_the_harness_s_packages(base: Environment, project: Path) -> None:
    assert_the_shell_answers(base, project)


def test_a_project_of_three_files(full: Environment, project: Path) -> None:
    assert_packages_come_from(full, project)
    assert_the_cases_pass(full, project)


@pytest.mark.nightly
def test_the_wheel_and_all_it_needs_from_the_registry(
    wheel: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = install_from_the_network(wheel, tmp_path_factory.mktemp("network"), "qtt")
    assert_the_shell_answers(environment, project)
    assert_the_script_runs(environment, project)
    assert_the_cases_pass(environment, project)
