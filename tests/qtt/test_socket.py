"""`qtt run --server`: cases of REST answers over a socket."""

from __future__ import annotations

import pytest

from kestrel_qtt.cli.main import ExitCode, main

_FILE = "test-cases/front-doors/{0}.rest.yaml"


@pytest.mark.spark
def test_cases_pass_over_a_socket_as_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["run", _FILE.format("pull"), _FILE.format("push"), "--server", "--shard", "1/12"]
    assert main(chosen) == ExitCode.OK, capsys.readouterr().out
    assert "passed" in capsys.readouterr().out


def test_cases_of_print_are_left_out_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", _FILE.format("admin"), "--server", "-k", "printed"]) == ExitCode.NO_CASES
    assert "cases of PRINT are not run over a" in capsys.readouterr().err


def test_cuts_are_for_runs_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", _FILE.format("pull"), "--server", "--cut", "each"]) == ExitCode.USAGE
    assert "not to --server" in capsys.readouterr().err
