"""Tests the script that drops the native libraries of other machines from the jars of the image."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "kubernetes" / "slim.py"
JARS = {
    "rocksdbjni-9.jar": [
        "org/rocksdb/RocksDB.class",
        "librocksdbjni-linux64.so",
        "librocksdbjni-linux64-musl.so",
        "librocksdbjni-linux-aarch64.so",
        "librocksdbjni-linux-aarch64-musl.so",
        "librocksdbjni-win64.dll",
    ],
    "zstd-jni-1.jar": [
        "com/github/Zstd.class",
        "linux/amd64/libzstd-jni-1.so",
        "linux/aarch64/libzstd-jni-1.so",
        "darwin/aarch64/libzstd-jni-1.dylib",
    ],
    "lz4-java-1.jar": [
        "net/jpountz/lz4/LZ4Factory.class",
        "net/jpountz/util/linux/amd64/liblz4-java.so",
        "net/jpountz/util/linux/aarch64/liblz4-java.so",
        "net/jpountz/util/windows/amd64/liblz4-java.dll",
    ],
    "snappy-java-1.jar": [
        "org/xerial/snappy/Snappy.class",
        "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so",
        "org/xerial/snappy/native/Linux/x86_64-musl/libsnappyjava.so",
        "org/xerial/snappy/native/Linux/aarch64/libsnappyjava.so",
        "org/xerial/snappy/native/Linux/android-aarch64/libsnappyjava.so",
        "org/xerial/snappy/native/AIX/ppc64/libsnappyjava.a",
    ],
}


def run(folder: Path, jars: dict[str, list[str]]) -> tuple[int, str]:
    for jar, names in jars.items():
        with ZipFile(folder / jar, "w") as archive:
            for name in names:
                archive.writestr(name, name)
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the image is for these machines")
def test_a_jar_keeps_its_classes_and_the_library_of_this_machine(tmp_path: Path) -> None:
    assert run(tmp_path, JARS) == (0, "")
    left = {jar.name: ZipFile(jar).namelist() for jar in sorted(tmp_path.iterdir())}
    assert {name: entries[0] for name, entries in left.items()} == {name: names[0] for name, names in JARS.items()}
    assert [len(entries) for entries in left.values()] == [2, 2, 2, 2]
    assert all("musl" not in entry for entries in left.values() for entry in entries)
    assert run(tmp_path, {name: names[:1] for name, names in JARS.items()})[0] == 1
