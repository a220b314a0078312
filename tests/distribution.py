"""Build wheel and sdist of the last commit into dist/, the same bytes whoever builds them, and check what they hold.

python -m tests.distribution            (TAG=v1.2.3 must be the version of the project, if it is set)
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 2_000_000
"""Bytes of wheel or sdist; more means that something came along that nobody needs."""
IN_SDIST = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "NOTICE", "PKG-INFO", "README.md", "SECURITY.md", "engine"}
IN_SDIST |= {"kestrel_sql.egg-info", "pyproject.toml", "qtt", "setup.cfg"}
IN_WHEEL = {"kestrel_qtt", "kestrel_sql"}
LICENCES = {"LICENSE", "NOTICE"}


def build(target: Path, commit: str = "HEAD") -> list[Path]:
    """Build from the files of a commit, and nothing else that lies here; returns sdist and wheel."""
    epoch = _git("log", "-1", "--format=%ct", commit).decode().strip()
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
            archive.extractall(folder, filter="data")
        # setuptools takes the permissions of files and folders over.
        for path in Path(folder).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), folder],
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
            stdout=subprocess.DEVNULL,
            umask=0o022,
            check=True,
        )
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    _settle(sdist, int(epoch))
    return [sdist, wheel]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _settle(sdist: Path, epoch: int) -> None:
    """Write an sdist anew without the times, users and the order of files of the machine that built it."""
    with tarfile.open(sdist) as archive:
        held = sorted(
            ((each, archive.extractfile(each)) for each in archive.getmembers()), key=lambda pair: pair[0].name
        )
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as written:
            for member, content in held:
                fresh = tarfile.TarInfo(member.name)
                fresh.type, fresh.size, fresh.mode, fresh.mtime = member.type, member.size, member.mode, epoch
                written.addfile(fresh, content)
    sdist.write_bytes(gzip.compress(out.getvalue(), mtime=epoch))


def faults(sdist: Path, wheel: Path) -> list[str]:
    """What is wrong with them: their size, what they hold, what they lack."""
    with tarfile.open(sdist) as archive:
        in_sdist = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]
    with zipfile.ZipFile(wheel) as packed:
        in_wheel = [PurePosixPath(name) for name in packed.namelist()]
    found = [
        f"{each.name} has {each.stat().st_size:,} bytes" for each in (sdist, wheel) if each.stat().st_size > LARGEST
    ]
    found += [
        f"the sdist holds {name}" for name in sorted({path.parts[0] for path in in_sdist if path.parts} - IN_SDIST)
    ]
    info = {path.parts[0] for path in in_wheel if path.parts[0].endswith(".dist-info")}
    found += [f"the wheel holds {name}" for name in sorted({path.parts[0] for path in in_wheel} - IN_WHEEL - info)]
    for what, paths in (("sdist", in_sdist), ("wheel", in_wheel)):
        found += [f"the {what} lacks {name}" for name in sorted(LICENCES - {path.name for path in paths})]
    return found


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def main() -> int:
    """Build, check, and say what came out."""
    tag = os.environ.get("TAG", "")
    if tag not in ("", f"v{version()}"):
        print(f"tag {tag} is not the version of pyproject.toml, {version()}", file=sys.stderr)
        return 1
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    built = build(target)
    found = faults(*built)
    for fault in found:
        print(fault, file=sys.stderr)
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, built)], check=False)
    for file in built:
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    return int(bool(found) or checked.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
