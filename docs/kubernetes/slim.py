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
    "x86_64": ("linux64.so", "linux/amd64/", "Linux/x86_64/"),
    "aarch64": ("linux-aarch64.so", "linux/aarch64/", "Linux/aarch64/"),
}
"""How the library of a machine with glibc begins in a jar, after what stands in front of it there."""

JARS = {
    "rocksdbjni-*.jar": "librocksdbjni-",
    "zstd-jni-*.jar": "",
    "lz4-java-*.jar": "net/jpountz/util/",
    "snappy-java-*.jar": "org/xerial/snappy/native/",
}
"""The jars with libraries for many machines, and what stands in front of each."""

NATIVE = re.compile(r".*\.(so|dll|jnilib|dylib|a)")


def slim(jar: Path, front: str) -> None:
    """Write a jar anew with the native library of this machine only."""
    fresh = jar.with_suffix(".new")
    kept = 0
    with ZipFile(jar) as old, ZipFile(fresh, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if NATIVE.fullmatch(entry.filename) is None:
                new.writestr(entry, old.read(entry))
            elif entry.filename.startswith(tuple(front + each for each in KEPT[platform.machine()])):
                new.writestr(entry, old.read(entry))
                kept += 1
    if kept != 1:
        raise SystemExit(f"{jar} has {kept} native libraries for {platform.machine()}")
    fresh.replace(jar)


if __name__ == "__main__":
    for pattern, front in JARS.items():
        (found,) = Path(sys.argv[1]).glob(pattern)
        slim(found, front)
