"""Stored checkpoints of plans: the state of a query in the middle of its case, as a version of the engine left it.

`checkpoint-<version>.zip` beside a stored plan is the checkpoint as Spark wrote it. `checkpoint-<version>.json` gives
its operators, the number of inputs before it, the number of records that each topic had, and the hash of the archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, OutputRecord
from kestrel_qtt.plans.store import PlanStoreError

LARGEST_BYTES = 60_000
"""What an archive may take at most."""

_PREFIX = "checkpoint-"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class Frozen(msgspec.Struct, frozen=True):
    """The state of a query after the first `inputs` records of its case, when its topics had `outputs` records each."""

    version: str
    inputs: int
    outputs: Mapping[str, int]
    operators: tuple[str, ...]
    archive: bytes


def pack(folder: Path) -> bytes:
    """Pack a checkpoint folder into a zip archive without checksum files. Equal files give equal bytes.

    Raises:
        PlanStoreError: it is larger than a stored checkpoint may be.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.endswith(".crc"):
                archive.writestr(
                    zipfile.ZipInfo(str(file.relative_to(folder)), _LONG_AGO), file.read_bytes(), zipfile.ZIP_DEFLATED
                )
    packed = buffer.getvalue()
    if len(packed) > LARGEST_BYTES:
        raise PlanStoreError(f"{folder}: the checkpoint takes {len(packed)} bytes, more than {LARGEST_BYTES}")
    return packed


def unpack(frozen: Frozen, folder: Path) -> None:
    """Unpack the checkpoint into `folder`."""
    with zipfile.ZipFile(io.BytesIO(frozen.archive)) as archive:
        archive.extractall(folder)


def write(folder: Path, frozen: Frozen) -> Path:
    """Store a checkpoint in the folder of its plan, and return the path of the archive.

    Raises:
        PlanStoreError: this version has stored one already.
    """
    path = folder / f"{_PREFIX}{frozen.version}.zip"
    if path.exists():
        raise PlanStoreError(f"{path}: the checkpoint is stored already; stored checkpoints are never edited")
    about = {
        "version": frozen.version,
        "inputs": frozen.inputs,
        "outputs": dict(frozen.outputs),
        "operators": list(frozen.operators),
        "hash": _hash(frozen.archive),
    }
    path.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    path.write_bytes(frozen.archive)
    return path


def find(root: Path) -> list[Path]:
    """Return the archives of all checkpoints below `root`."""
    return sorted(root.rglob(f"{_PREFIX}*.zip"))


def read(path: Path) -> Frozen:
    """Read the checkpoint in the archive at `path`.

    Raises:
        PlanStoreError: a file cannot be read, or the archive was changed.
    """
    try:
        about: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        frozen = Frozen(
            about["version"], about["inputs"], about["outputs"], tuple(about["operators"]), path.read_bytes()
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanStoreError(f"{path}: cannot be read: {error}") from error
    if about["hash"] != _hash(frozen.archive):
        raise PlanStoreError(
            f"{path}: the checkpoint was changed after it was stored; stored checkpoints are never edited"
        )
    return frozen


def second_half(case: Case, frozen: Frozen) -> Case:
    """Return the part of a case after the checkpoint. It expects the remaining records and nothing else."""
    seen = dict(frozen.outputs)
    return replace(case, outputs=tuple(_after(case.outputs or (), seen)), post=None, log=None, serdes=None)


def _after(outputs: tuple[OutputRecord, ...], seen: dict[str, int]) -> Iterator[OutputRecord]:
    for record in outputs:
        if seen.get(record.topic, 0):
            seen[record.topic] -= 1
        else:
            yield record


def _hash(archive: bytes) -> str:
    return "sha256:" + hashlib.sha256(archive).hexdigest()
