"""`make image`: builds the image of docs/kubernetes with docker or buildah, tries it as its own user, and measures it.

Where no registry of images can be reached, buildah gets a base from Debian's packages (mmdebstrap).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kestrel_sql.plan.codec.plan_file import engine_version
from tests.environments import ROOT, build_wheel

FOLDER = ROOT / "docs" / "kubernetes"
IMAGE, BASE, DEBIAN = f"kestrel:{engine_version()}", "localhost/bookworm", "http://deb.debian.org/debian"
LIMIT_MB = 900
MERGED = "/usr/share/mmdebstrap/hooks/merged-usr"
"""Makes /bin a link to /usr/bin, as in Debian's own image. Without it the base gets a package for that, and Perl."""
LOAD = """
import ctypes, pathlib, sys
for path in pathlib.Path(sys.prefix).rglob("*.so*"):
    if "java-runtime" not in path.parts:
        ctypes.CDLL(str(path))
        print(path)
"""
"""Loads the libraries of all Python packages."""

TRUSTED = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/certs/java/cacerts"))
"""The authorities that this machine trusts, for Python and for Java; a build by buildah trusts them, too."""

APP = """
CREATE STREAM ORDERS (ID INT KEY, QTY INT) WITH (kafka_topic='orders', value_format='JSON', partitions=1);
CREATE STREAM LARGE AS SELECT * FROM ORDERS WHERE QTY >= 10;
CREATE TABLE COUNTS AS SELECT ID, COUNT(*) AS N FROM ORDERS GROUP BY ID;
"""
ORDERS = [(1, 9), (2, 10), (3, 11)]


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds images and runs commands in them; `base` replaces the base of the Dockerfile if it is not empty."""

    program: str
    base: str = ""

    def build(self, context: Path) -> None:
        """Build the image from a folder with everything that the Dockerfile copies."""
        trusted = [word for path in TRUSTED if path.exists() for word in ("--volume", f"{path}:{path}:ro")]
        if TRUSTED[1].exists():
            trusted += ["--build-arg", f"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore={TRUSTED[1]}"]
        words = ["build"] if self.program == "docker" else ["build", "--isolation", "chroot", *trusted]
        base = ["--build-arg", f"BASE={self.base}"] if self.base else []
        run(self.program, *words, *base, "--file", str(FOLDER / "Dockerfile"), "--tag", IMAGE, str(context))

    def size_mb(self) -> tuple[int, int]:
        """The size of the image's files (MB), and that of the archive in which a registry stores them."""
        files = self.inside("sh", "-c", "du --summarize --bytes --one-file-system / 2>/dev/null || true")[-1].split()[0]
        (archive,) = self.inside("sh", "-c", "tar -cz --one-file-system / 2>/dev/null | wc -c")
        return int(files) // 1_000_000, int(archive) // 1_000_000

    def inside(self, *command: str, volume: Path | None = None) -> list[str]:
        """Run a command as the user of the image, and return the lines that it printed."""
        mounted = ["--volume", f"{volume}:/app:ro"] if volume is not None else []
        if self.program == "docker":
            return output("docker", "run", "--rm", "--entrypoint", "", *mounted, IMAGE, *command)
        (container,) = output("buildah", "from", "--pull-never", IMAGE)
        try:
            return output("buildah", "run", "--isolation", "chroot", *mounted, container, "--", *command)
        finally:
            run("buildah", "rm", container)


def run(*command: str) -> None:
    """Run a command whose output is that of this program.

    Raises:
        SystemExit: it fails.
    """
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"failed: {' '.join(command)}")


def output(*command: str) -> list[str]:
    """The lines that a command prints.

    Raises:
        SystemExit: it fails.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


def builder() -> Builder:
    """Find a program that builds images, and a base for it.

    Raises:
        SystemExit: there is none.
    """
    if shutil.which("docker") and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        return Builder("docker")
    if not shutil.which("buildah"):
        raise SystemExit("an image needs docker with a running engine, or buildah (apt install buildah mmdebstrap)")
    if subprocess.run(["buildah", "inspect", "--type", "image", BASE], capture_output=True, check=False).returncode:
        sys.stderr.write(f"making a base from {DEBIAN}\n")
        make_base()
    return Builder("buildah", BASE)


def make_base() -> None:
    """Make an image of a minimal Debian 12 with buildah, from its packages."""
    with tempfile.TemporaryDirectory() as folder:
        archive = str(Path(folder) / "base.tar")
        own = (f"--hook-dir={MERGED}", "--include=ca-certificates")
        run("mmdebstrap", "--variant=minbase", *own, "bookworm", archive, DEBIAN)
        (container,) = output("buildah", "from", "scratch")
        run("buildah", "add", "--quiet", container, archive, "/")
        run("buildah", "commit", "--quiet", container, BASE)
        run("buildah", "rm", container)


def context_in(folder: Path) -> Path:
    """Put everything that the Dockerfile copies into a new folder below `folder`."""
    context = folder / "context"
    context.mkdir()
    shutil.copy(build_wheel(folder), context)
    shutil.copy(ROOT / "constraints.txt", context)
    for name in ("entrypoint.sh", "slim.py"):
        shutil.copy(FOLDER / name, context)
    return context


def check(image: Builder, folder: Path) -> None:
    """Run an application in the image, as its user.

    Raises:
        SystemExit: the image is too large, runs as root, or does not run the application.
    """
    app = folder / "app"
    app.mkdir()
    app.chmod(0o755)
    (app / "app.sql").write_text(APP, encoding="utf-8")
    rows = [json.dumps({"key": key, "value": {"QTY": qty}}) for key, qty in ORDERS]
    (app / "orders.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (user,) = image.inside("id", "-u")
    words = ("run", "/app/app.sql", "--input", "orders=/app/orders.jsonl")
    found = image.inside("/opt/entrypoint.sh", "kestrel", *words, volume=app)
    records = [*map(json.loads, found)]
    keys, counted = ([each["key"] for each in records if each["topic"] == topic] for topic in ("LARGE", "COUNTS"))
    libraries = image.inside("/opt/kestrel/bin/python3", "-c", LOAD)
    files, size = image.size_mb()
    sys.stdout.write(
        f"user {user}, {len(keys)} of {len(ORDERS)} records passed the filter, {len(libraries)} libraries load, "
        f"{files} MB, {size} MB compressed\n"
    )
    expect(user != "0", "the image runs as root")
    expect(keys == [key for key, qty in ORDERS if qty >= 10], f"the application wrote {found}")
    expect(sorted(counted) == [key for key, _ in ORDERS], f"the application counted {found}")
    expect(files < LIMIT_MB, f"the image has more than {LIMIT_MB} MB")


def expect(holds: bool, otherwise: str) -> None:
    """End with a message unless a condition holds."""
    if not holds:
        raise SystemExit(otherwise)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build and check."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    image = builder()
    with tempfile.TemporaryDirectory() as folder:
        image.build(context_in(Path(folder)))
        check(image, Path(folder))


if __name__ == "__main__":
    main()
