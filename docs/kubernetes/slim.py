"""Drops the native libraries of other machines from Spark's jars; those of RocksDB alone take 60 MB.

python3 slim.py JARS
"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

KEPT = {
    "x86_64": ("librocksdbjni-linux64.so", "linux/amd64/"),
    "aarch64": ("librocksdbjni-linux-aarch64.so", "linux/aarch64/"),
}
"""How the library of a machine with glibc begins in the jars of RocksDB and of Zstandard."""

NATIVE = re.compile(r".*\.(so|dll|jnilib|dylib)")


def slim(jar: Path) -> None:
    """Write a jar anew with the native library of this machine only."""
    fresh = jar.with_suffix(".new")
    kept = 0
    with ZipFile(jar) as old, ZipFile(fresh, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if NATIVE.fullmatch(entry.filename) is None:
                new.writestr(entry, old.read(entry))
            elif entry.filename.startswith(KEPT[platform.machine()]):
                new.writestr(entry, old.read(entry))
                kept += 1
    if kept != 1:
        raise SystemExit(f"{jar} has {kept} native libraries for {platform.machine()}")
    fresh.replace(jar)


if __name__ == "__main__":
    for pattern in ("rocksdbjni-*.jar", "zstd-jni-*.jar"):
        (found,) = Path(sys.argv[1]).glob(pattern)
        slim(found)
