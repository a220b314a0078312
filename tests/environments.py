"""Environments of Python that hold a wheel of the project and the distributions that it declares, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kestrel_sql.spark.runtime.class_archive import archive_name, archive_path
from kestrel_sql.spark.runtime.environment import prepare_environment

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("engine", "qtt", "pyproject.toml", "README.md", "LICENSE", "NOTICE")


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment in `folder`."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in `cwd`; variables that lead to other packages are left out."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL"))
        }
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env={**kept, **self.variables, "PATH": f"{self.folder / 'bin'}:{kept.get('PATH', '')}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @property
    def packages(self) -> Path:
        """The folder of its packages."""
        return next((self.folder / "lib").glob("python*/site-packages"))


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, so that nothing is written beside them; no network is needed."""
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder / "dist"), str(folder))
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install(wheel: Path, folder: Path) -> Environment:
    """Make an environment with the wheel and links to what it declares, as it is installed where this runs.

    Each distribution is linked by itself: nothing leads to the folder where it lies, so neither a package that is not
    declared nor the checkout, which an editable install puts on the path of this process, can be imported.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    prepare_environment()
    made = Environment(folder, {"SPARK_HOME": os.environ["SPARK_HOME"]})
    _pip(
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--quiet",
        str(wheel),
    )
    _link_all(made, "")
    _link_archive(made)
    return made


def add_extra(made: Environment, extra: str) -> Environment:
    """Link what an extra of the wheel needs, too."""
    _link_all(made, extra)
    return made


def _link_all(made: Environment, extra: str) -> None:
    own = next(found for found in metadata.distributions(path=[str(made.packages)]) if found.name == "kestrel-sql")
    for name in sorted(closure(own, extra)):
        _link(metadata.distribution(name), made.packages)


def _link_archive(made: Environment) -> None:
    """Let sessions of an environment, which take the jars from here, take the archive of their classes from here, too.

    If there is one, each start of Spark takes seconds less of processor time.
    """
    own = made.folder / "share" / "kestrel"
    own.mkdir(parents=True)
    (own / archive_name(made.packages / "pyspark")).symlink_to(archive_path())


def install_from_the_network(wheel: Path, folder: Path, extra: str) -> Environment:
    """Make an environment as a user does: pip takes everything from the registry."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin" / "python")
    _pip("--python", python, "install", "--quiet", f"kestrel-sql[{extra}] @ {wheel.as_uri()}")
    return Environment(folder)


def closure(own: metadata.Distribution, extra: str) -> set[str]:
    """The distributions that one needs, and those that these need, without itself."""
    waiting = list(_needed(own, frozenset({extra})))
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        item = waiting.pop()
        if item not in seen:
            seen.add(item)
            waiting += _needed(metadata.distribution(item[0]), item[1])
    return {name for name, _ in seen}


def _needed(distribution: metadata.Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in distribution.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def _link(distribution: metadata.Distribution, packages: Path) -> None:
    """Link the packages of a distribution, and the files that stand in no package."""
    for file in distribution.files or ():
        if ".." in file.parts or file.parts[0] == "__pycache__":
            continue
        at = Path(file.parts[0])
        for part in file.parts[1:]:
            if (distribution.locate_file(at) / "__init__.py").is_file() or at.suffix == ".dist-info":  # type: ignore[operator]
                break
            at /= part
        link = packages / at
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(str(distribution.locate_file(at)))
