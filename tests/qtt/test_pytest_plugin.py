from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.load import load_all

# Pytester forgets what a run imports, and keeps what was there before it: else each run takes a second longer.
from kestrel_qtt.plugin import suite  # noqa: F401
from kestrel_qtt.plugin.chunks import chunk_names

pytest_plugins = ["pytester"]

CONFTEST = (
    (Path(__file__).parent / "conftest.py").read_text()
    + """

class Noting(FakeDriver):
    equal_queries = 3

    def run(self, cases, options):
        yield from super().run(cases, options)
        with open("groups.txt", "a") as file:
            file.write(json.dumps(self.groups[-1]) + "\\n")
        with open("functions.txt", "a") as file:
            file.writelines(f"{function}\\n" for case in cases for function in case.functions)

    def close(self):
        with open("closed.txt", "a") as file:
            file.write("closed\\n")

def pytest_qtt_driver(config):
    return Noting()
"""
)


def case(name: str, value: Any = 1, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "statements": ["COPY"],
        "inputs": [{"topic": "IN", "value": 1}],
        "outputs": [{"topic": "OUT", "value": value}],
        **members,
    }


@pytest.fixture
def bare(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that names no folder of cases."""
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.fixture
def project(bare: pytest.Pytester) -> pytest.Pytester:
    bare.makeini("[pytest]\nqtt_cases = test-cases\n")
    bare.mkdir("test-cases")
    return bare


def write(project: pytest.Pytester, name: str, *cases: Any) -> None:
    path = project.path / "test-cases" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"tests": list(cases)}, indent=1))


def groups(project: pytest.Pytester) -> list[list[str]]:
    return [json.loads(line) for line in (project.path / "groups.txt").read_text().splitlines()]


def closed(project: pytest.Pytester) -> int:
    return len((project.path / "closed.txt").read_text().splitlines())


def test_ids_and_read_ahead(project: pytest.Pytester) -> None:
    write(project, "a/one.json", case("It works", format=["JSON", "AVRO"]), case("second"))
    write(project, "a/two.yaml", case("third"))
    result = project.runpytest("-v", "test-cases")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["test-cases/a/one.json::it-works[[]JSON] PASSED*", "test-cases/a/two.yaml::third PASSED*"]
    )
    assert [len(group) for group in groups(project)] == [4]
    assert closed(project) == 1


@pytest.mark.parametrize(
    ("options", "carriers"),
    [
        ((), {"spark", "process"}),
        (("--qtt-on", "spark"), {"spark"}),
        (("--qtt-local",), {"process"}),
        (("--qtt-on", "process", "-n", "1"), {"process"}),
    ],
)
def test_what_carries_the_cases_of_files_and_those_of_tests(
    project: pytest.Pytester, options: tuple[str, ...], carriers: set[str]
) -> None:
    note = 'def pytest_qtt_driver(config, carrier):\n    open("carriers.txt", "a").write(carrier + " ")\n'
    project.makeconftest(CONFTEST.replace("def pytest_qtt_driver(config):\n", note))
    write(project, "one.json", case("a file"))
    project.makepyfile("def test_it(qtt):\n    qtt.run('test-cases/one.json')")
    project.runpytest(".", *options).assert_outcomes(passed=2)
    opened = (project.path / "carriers.txt").read_text().split()
    assert (set(opened), len(opened)) == (carriers, len(carriers))


def test_only_selected_cases_run(project: pytest.Pytester) -> None:
    write(project, "one.json", case("left"), case("right"))
    project.runpytest("test-cases", "-k", "left").assert_outcomes(passed=1, deselected=1)
    assert groups(project) == [["test-cases/one.json::left"]]
    project.runpytest("test-cases/one.json::right").assert_outcomes(passed=1)


def test_group_size(project: pytest.Pytester) -> None:
    write(project, "one.json", *[case(f"c{n}") for n in range(5)])
    project.runpytest("test-cases", "--qtt-group-size", "2").assert_outcomes(passed=5)
    assert [len(group) for group in groups(project)] == [2, 2, 1]


def test_failure_shows_place_and_table_without_traceback(project: pytest.Pytester) -> None:
    write(project, "one.json", case("good"), case("bad", value="1"))
    result = project.runpytest("test-cases")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*one.json:*: one - bad", "topic OUT, record 0 (*one.json:*):", '*value*"1" (string)*1 (integer)*']
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_bad_file_and_bad_case_fail_with_their_lines(project: pytest.Pytester) -> None:
    write(project, "bad.json", case("typo", outptus=[]), case("good"))
    write(project, "worse.yaml", case("x"))
    (project.path / "test-cases" / "worse.yaml").write_text("tests:\n  - name: yes\n")
    result = project.runpytest("test-cases")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*bad.json:*did you mean `outputs`?", "*worse.yaml:2: `yes` does not mean*"])


def test_known_gaps_are_strict_xfails(project: pytest.Pytester) -> None:
    write(project, "one.json", case("bad", value=2), case("good"), case("crash", statements=["CRASH"]))
    names = ("bad", "good", "crash", "gone")
    ledger = "\n".join(f"- {{case: 'test-cases/one.json::{n}', reason: because, kind: notyet}}" for n in names)
    (project.path / "test-cases" / "known-gaps.yaml").write_text(ledger)
    result = project.runpytest("test-cases", "-rx", "--qtt-group-size", "1")
    result.assert_outcomes(xfailed=1, failed=3)
    result.stdout.fnmatch_lines(
        ["*known-gaps.yaml:4: there is no case test-cases/one.json::gone", "XFAIL*::bad*notyet: because*"]
    )


def test_other_files_are_left_alone(project: pytest.Pytester) -> None:
    (project.path / "data.json").write_text("{")
    project.makepyfile("def test_x(): pass")
    project.runpytest().assert_outcomes(passed=1)
    assert not (project.path / "closed.txt").exists()


def test_driver_error_is_a_failure(project: pytest.Pytester) -> None:
    write(project, "one.json", case("a", statements=["CRASH"]))
    result = project.runpytest("test-cases")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*engine broke*"])


def test_workers_share_the_cases_without_running_any_twice(project: pytest.Pytester) -> None:
    write(project, "one.json", case("bad", outptus=1), *[case(f"c{n}") for n in range(11)])
    project.makepyfile("import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_x(n): pass")
    result = project.runpytest("-n", "2", "--qtt-group-size", "4")
    result.assert_outcomes(passed=17, failed=1)
    ran = groups(project)
    assert sorted(name for group in ran for name in group) == sorted(f"test-cases/one.json::c{n}" for n in range(11))
    assert max(map(len, ran)) == 4
    assert len(ran) == 3
    assert closed(project) in (1, 2)
    result.stdout.fnmatch_lines([f"{3 * closed(project)} queries were not run: *"])


def test_other_schedulers_run_no_case_twice(project: pytest.Pytester) -> None:
    write(project, "one.json", *[case(f"c{n}") for n in range(6)])
    project.runpytest("-n", "2", "--dist", "worksteal", "test-cases").assert_outcomes(passed=6)
    assert sorted(map(len, groups(project))) == [1] * 6


def test_a_stored_plan_is_in_the_chunk_of_its_case() -> None:
    cases = [f"test-cases/a/b.yaml::{name}" for name in ("one", "two[JSON]")]
    plans = [f"historic-plans/a/b/{name}/1.0/spec.json::x" for name in ("one", "two-json")]
    named = chunk_names([*cases, *plans, "tests/test_x.py::x"], lambda nodeid: not nodeid.startswith("tests/"), 2)
    assert named == {cases[0]: "cases 0", plans[0]: "cases 0", cases[1]: "cases 1", plans[1]: "cases 1"}


@pytest.mark.parametrize(("count", "sizes"), [(4, [4]), (60, [60]), (100, [60, 40]), (200, [100, 100])])
def test_few_cases_stay_in_one_worker(count: int, sizes: list[int]) -> None:
    names = chunk_names([f"test-cases/a.yaml::{number:03}" for number in range(count)], lambda _: True, 300, 2)
    assert sorted(Counter(names.values()).values(), reverse=True) == sizes


OTHER_TOOL = """
import pytest

class Call(pytest.Item):
    def runtest(self): pass

class Calls(pytest.File):
    def collect(self):
        yield Call.from_parent(self, name="call")

def pytest_collect_file(file_path, parent):
    return Calls.from_parent(parent, path=file_path) if file_path.name.endswith(".tavern.yaml") else None
"""


def test_named_files_of_other_tools_are_left_alone(bare: pytest.Pytester) -> None:
    bare.makeconftest(CONFTEST + OTHER_TOOL)
    (bare.path / "test_api.tavern.yaml").write_text("test_name: api\nstages: []\n")
    write(bare, "one.json", case("a"))
    bare.runpytest("test_api.tavern.yaml", "test-cases/one.json").assert_outcomes(passed=2)


def test_stored_plans_run_with_the_cases(project: pytest.Pytester) -> None:
    write(project, "one.json", case("a"))
    project.makeini("[pytest]\nqtt_cases = test-cases historic-plans\n")
    folder = project.path / "historic-plans" / "c" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "spec.json").write_text(json.dumps({"testCase": case("old", value=2)}))
    result = project.runpytest("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["historic-plans/c/1.0.0/spec.json::old FAILED*"])
    assert [len(group) for group in groups(project)] == [2]


def test_a_worker_that_dies_fails_one_test_and_the_run_ends(project: pytest.Pytester) -> None:
    write(project, "one.json", *[case(f"c{n}") for n in range(6)])
    project.makepyfile(
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(40))\n"
        "def test_x(n):\n"
        "    open('ran.txt', 'a').write(f'{n} ')\n"
        "    if n in (20, 38): os._exit(3)\n"
    )
    result = project.runpytest_subprocess("-n", "2", "-p", "no:cacheprovider", timeout=60)
    result.assert_outcomes(passed=44, failed=2)
    assert sorted(map(int, (project.path / "ran.txt").read_text().split())) == list(range(40))


GIVEN = json.dumps({"tests": [case("a")]})


@pytest.mark.parametrize("argument", ["checks", "checks/x.json", "checks/x.json::a"])
def test_any_folder_or_file_may_be_given(bare: pytest.Pytester, argument: str) -> None:
    (bare.mkdir("checks") / "x.json").write_text(GIVEN)
    (bare.path / "checks" / "package.json").write_text('{"name": "other", "tests": 1}')
    result = bare.runpytest("-v", argument)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["checks/x.json::a PASSED*"])


def test_nothing_is_collected_that_nobody_asked_for(bare: pytest.Pytester) -> None:
    (bare.mkdir("test-cases") / "x.json").write_text(GIVEN)
    bare.makepyfile("def test_x(): pass")
    bare.runpytest().assert_outcomes(passed=1)
    bare.runpytest("test_nothing_is_collected_that_nobody_asked_for.py").assert_outcomes(passed=1)
    bare.runpytest(".").assert_outcomes(passed=2)


def test_every_file_of_a_named_folder_must_hold_cases(bare: pytest.Pytester) -> None:
    bare.makeini("[pytest]\nqtt_cases = checks\n")
    folder = bare.mkdir("checks")
    (folder / "x.json").write_text(GIVEN)
    (folder / "slip.yaml").write_text("test: []\n")
    result = bare.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*slip.yaml:1: `test` is not a field; did you mean `tests`?"])


def test_a_project_below_folders_called_as_those_of_ksqldb(pytester: pytest.Pytester) -> None:
    root = pytester.path / "historic-plans" / "query-validation-tests" / "clone"
    (root / "test-cases").mkdir(parents=True)
    (root / "test-cases" / "x.json").write_text(json.dumps({"tests": [case("a"), case("b", unknown=1)]}))
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\nqtt_cases = ["test-cases"]\n')
    (root / "conftest.py").write_text(CONFTEST)
    result = pytester.runpytest("-v", "--rootdir", root, "-c", root / "pyproject.toml", root)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*x.json:*: case 'b': `unknown` is not a field*"])
    assert groups(pytester) == [["test-cases/x.json::a"]]


def test_named_folders_are_collected_beside_the_test_paths(bare: pytest.Pytester) -> None:
    bare.makeini("[pytest]\ntestpaths = tests\nqtt_cases = checks more/checks\n")
    for folder in ("checks", "more/checks"):
        (bare.path / folder).mkdir(parents=True)
        (bare.path / folder / "x.json").write_text(GIVEN)
    (bare.mkdir("tests") / "test_x.py").write_text("def test_x(): pass")
    bare.runpytest().assert_outcomes(passed=3)
    bare.runpytest("tests").assert_outcomes(passed=1)
    bare.runpytest("-n", "1").assert_outcomes(passed=3)


def test_a_named_folder_that_is_absent(bare: pytest.Pytester) -> None:
    bare.makeini("[pytest]\nqtt_cases = nothing\n")
    result = bare.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: qtt_cases names *nothing, which is not a folder"])


def test_pytest_and_the_command_find_the_same(bare: pytest.Pytester) -> None:
    """Links, folders of three files and hidden folders among them."""
    (bare.mkdir("elsewhere") / "x.json").write_text(GIVEN)
    folder = bare.mkdir("checks")
    (folder / "linked").symlink_to(bare.path / "elsewhere")
    (folder / "one.json").symlink_to(bare.path / "elsewhere" / "x.json")
    (folder / "three").mkdir()
    (folder / "three" / "statements.sql").write_text("COPY")
    (folder / "three" / "output.json").write_text('{"outputs": [{"topic": "OUT", "value": 1}]}')
    (folder / "script.sql").write_text("--@test: s\nCOPY;\n")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.json").write_text(GIVEN)
    result = bare.runpytest("--collect-only", "-q", "checks")
    found = [line for line in result.outlines if "::" in line]
    assert sorted(found) == sorted(case.id for case in load_all(find_files([Path("checks")])).cases)
    assert len(found) == 4


def test_cases_of_ksqldb(bare: pytest.Pytester) -> None:
    foreign = json.dumps({"tests": [case("a", issue=1)]})
    for name in ("query-validation-tests", "theirs"):
        (bare.mkdir(name) / "x.json").write_text(foreign)
    bare.runpytest("query-validation-tests").assert_outcomes(passed=1)
    bare.runpytest("theirs").assert_outcomes(failed=1)
    bare.runpytest("theirs", "--qtt-ksqldb").assert_outcomes(passed=1)


def test_cases_of_equal_ids_do_not_share_a_result(bare: pytest.Pytester) -> None:
    for name, value in (("one", 1), ("two", 2)):
        folder = bare.path / name / "query-validation-tests"
        folder.mkdir(parents=True)
        (folder / "x.json").write_text(json.dumps({"tests": [case("a", value=value)]}))
    result = bare.runpytest("one", "two")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*two/query-validation-tests/x.json:*already has a case query-validation-tests/x.json::a"]
    )


FUNCTIONS = """
from kestrel_sql.functions.declaration import scalar

@scalar("(value INT) -> INT")
def triple(value):
    "Multiply by three."
    return value * 3
"""


def test_functions(bare: pytest.Pytester) -> None:
    bare.makeini("[pytest]\nqtt_cases = checks\nqtt_functions = mine.py\n")
    folder = bare.mkdir("checks")
    for name in ("x", "y"):
        (folder / f"{name}.json").write_text(GIVEN)
    (bare.path / "mine.py").write_text(FUNCTIONS)
    bare.runpytest().assert_outcomes(passed=2)
    assert (bare.path / "functions.txt").read_text() == f"{bare.path / 'mine.py'}\n" * 2
    (bare.path / "none.py").write_text("x = 1")
    result = bare.runpytest("-o", "qtt_functions=none.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*declares no functions*"])


SCHEDULER = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_xdist_make_scheduler(config, log):
    scheduler = yield
    open("scheduler.txt", "w").write(type(scheduler).__name__)
    return scheduler
"""


@pytest.mark.parametrize(
    ("arguments", "scheduler"),
    [
        (["tests"], "LoadScheduling"),
        (["checks"], "ChunkScheduling"),
        ([], "ChunkScheduling"),
        (["checks", "--dist", "worksteal"], "WorkStealingScheduling"),
    ],
)
def test_the_scheduler_of_others_stays_where_there_is_no_case(
    bare: pytest.Pytester, arguments: list[str], scheduler: str
) -> None:
    bare.makeini("[pytest]\nqtt_cases = checks\n")
    (bare.mkdir("checks") / "x.json").write_text(GIVEN)
    (bare.mkdir("tests") / "test_x.py").write_text("def test_x(): pass")
    bare.makeconftest(CONFTEST + SCHEDULER)
    assert bare.runpytest("-n", "1", *arguments).ret == 0
    assert (bare.path / "scheduler.txt").read_text() == scheduler


WITHOUT_THE_EXTRA = """
import sys

sys.modules["jsonschema"] = None

def pytest_sessionfinish():
    print("harness", "kestrel_qtt.runner" in sys.modules)
"""


@pytest.fixture
def without(pytester: pytest.Pytester) -> pytest.Pytester:
    """An environment of pytest and of the engine: the plugin is there, what it runs cases with is not."""
    pytester.makepyfile(without=WITHOUT_THE_EXTRA)
    return pytester


def test_a_project_without_cases_needs_pytest_only(without: pytest.Pytester) -> None:
    without.makepyfile("def test_x(): pass")
    result = without.runpytest_subprocess("-s", "-p", "without", ".")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*harness False*"])


def test_cases_without_the_extra(without: pytest.Pytester) -> None:
    for name in ("x", "y"):
        (without.path / f"{name}.json").write_text(GIVEN)
    result = without.runpytest_subprocess("-p", "without", ".")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs the package jsonschema, which pip install 'kestrel-sql[[]qtt]' brings"])


def test_a_report_to_look_at_and_the_seconds_of_each_case(project: pytest.Pytester) -> None:
    write(project, "a.json", case("one"), case("two", 2), {"name": "broken", "statments": []})
    project.makepyfile("def test_other(): pass")
    result = project.runpytest("--qtt-html", "report", "--junitxml", "junit.xml")
    result.assert_outcomes(passed=2, failed=2)
    page = (project.path / "report" / "index.html").read_text()
    assert "<title>qtt report</title>" in page
    junit = (project.path / "junit.xml").read_text()
    assert 'name="one" time="0.01' in junit
    assert '<property name="carrier" value="process"' in junit
    assert "cases ran on process" in result.stdout.str()
