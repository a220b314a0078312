"""Lists the texts that a user may read when something is refused or fails, with the places that say them.

    python -m tests.messages            (all)
    python -m tests.messages planner    (those of a room)

A text is what an exception of ours, a hint or a problem is made of; `{…}` stands for what is put in.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (ROOT / "engine" / "kestrel_sql", ROOT / "qtt" / "kestrel_qtt")
_ENDS = ("Error", "Refusal", "refuse", "refused", "problem", "Problem")


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of a module."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [*node.args] if name.endswith(_ENDS) else []
            given += [each.value for each in node.keywords if each.arg in ("hint", "message")]
            for each in given:
                text = _text(each)
                if " " in text.strip():
                    yield each.lineno, text


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(each) for each in values)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case ast.IfExp(body=body, orelse=other):
            return f"{_text(body)} | {_text(other)}"
    return ""


def main() -> None:
    """Print the texts of all rooms, or of those that are named."""
    wanted = sys.argv[1:]
    for room in ROOMS:
        for file in sorted(room.rglob("*.py")):
            if not wanted or file.relative_to(room).parts[0].removesuffix(".py") in wanted:
                for line, text in texts(file):
                    print(f"{file.relative_to(ROOT)}:{line}: {text}")


if __name__ == "__main__":
    main()
