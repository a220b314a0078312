"""The known-gaps list: cases that do not pass yet, each with a reason. The list can only shrink."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.discovery import GAPS_FILE, CaseFile
from kestrel_qtt.cases.model import CaseFileError, Json, Result, Status
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_yaml import YamlNode, parse_yaml


class GapKind(StrEnum):
    """What a gap promises: ours to do, others must move first, or it stays so by decision."""

    NOTIMPL = "notimpl"
    NOTYET = "notyet"
    NEVER = "never"


class Gap(msgspec.Struct, frozen=True):
    """A case that does not pass, and why."""

    case: str
    reason: str
    kind: GapKind
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


Ledger = Mapping[str, Gap]
NO_GAPS: Ledger = MappingProxyType({})


def load_gaps(path: Path) -> Ledger:
    """Load a known-gaps list: a list of `{case, reason, kind}`; raise CaseFileError."""
    try:
        text = path.read_text(encoding="utf-8")
        if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            return NO_GAPS
        root = parse_yaml(text)
    except OSError as error:
        raise CaseFileError(path, 1, f"cannot be read: {error}") from error
    except TextError as error:
        raise CaseFileError(path, error.line, error.message) from error
    if not isinstance(root.value, list):
        raise CaseFileError(path, root.line, "a ledger is a list of gaps")
    gaps: dict[str, Gap] = {}
    for node in root.children.values():
        gap = _gap(path, node)
        if gap.case in gaps:
            raise CaseFileError(path, node.line, f"the case {gap.case} is listed twice")
        gaps[gap.case] = gap
    return MappingProxyType(gaps)


def _gap(path: Path, node: YamlNode) -> Gap:
    members: Json = node.value
    if not isinstance(members, dict) or set(members) != {"case", "reason", "kind"}:
        raise CaseFileError(path, node.line, "a gap has exactly the members case, reason and kind")
    case, reason, kind = members["case"], members["reason"], members["kind"]
    if not (isinstance(case, str) and case and isinstance(reason, str) and reason.strip()):
        raise CaseFileError(path, node.line, "case and reason must be texts")
    if kind not in [k.value for k in GapKind]:
        raise CaseFileError(path, node.line, f"kind must be one of {', '.join(GapKind)}")
    return Gap(case, reason, GapKind(str(kind)), path, node.line)


def ledger_of(file: CaseFile) -> Path | None:
    """Return the known-gaps list of a case file: the nearest one above it, up to the root of its ids; None if none."""
    folders = [file.root / parent for parent in Path(file.name).parents]
    return next((ledger for folder in folders if (ledger := folder / GAPS_FILE).is_file()), None)


def apply(gaps: Ledger, result: Result) -> Result:
    """Make a listed case that fails a skipped one, and a listed case that passes a failure."""
    gap = gaps.get(result.case.id)
    if gap is None or result.status in (Status.SKIPPED, Status.ERROR):
        return result
    if result.status is Status.PASSED:
        reason = f"the case passes, but is listed in {gap.file}:{gap.line} ({gap}): remove the entry"
        return replace(result, status=Status.FAILED, reason=reason)
    return replace(result, status=Status.SKIPPED, reason=f"known gap, {gap}")
