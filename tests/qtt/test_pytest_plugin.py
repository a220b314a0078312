from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["pytester"]

CONFTEST = (
    (Path(__file__).parent / "conftest.py").read_text()
    + """

class Noting(FakeDriver):
    def run(self, cases, options):
        yield from super().run(cases, options)
        with open("groups.txt", "a") as file:
            file.write(json.dumps(self.groups[-1]) + "\\n")

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
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


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
    result.stdout.fnmatch_lines(["*bad.json:*did you mean 'outputs'?", "*worse.yaml:2: `yes` does not mean*"])


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


def test_other_schedulers_run_no_case_twice(project: pytest.Pytester) -> None:
    write(project, "one.json", *[case(f"c{n}") for n in range(6)])
    project.runpytest("-n", "2", "--dist", "worksteal", "test-cases").assert_outcomes(passed=6)
    assert sorted(map(len, groups(project))) == [1] * 6


def test_stored_plans_run_with_the_cases(project: pytest.Pytester) -> None:
    write(project, "one.json", case("a"))
    folder = project.path / "historic-plans" / "c" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "spec.json").write_text(json.dumps({"testCase": case("old", value=2)}))
    result = project.runpytest("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["historic-plans/c/1.0.0/spec.json::old FAILED*"])
    assert [len(group) for group in groups(project)] == [2]


def test_a_worker_that_dies_costs_one_test_and_no_end(project: pytest.Pytester) -> None:
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
