"""Write the findings of mutation testing or branch coverage as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """A mutant or branch: its position, its outcome, and for a mutant the lines that differ."""

    place: str
    text: str
    is_good: bool
    difference: str = ""


def write_findings(file: Path, title: str, open_word: str, summary: str, findings: Sequence[Finding]) -> Path:
    """Write the page to `file` and return its path; `open_word` names the findings that are not good."""
    page = files("kestrel_qtt.report").joinpath("page")
    text = page.joinpath("findings.html").read_text(encoding="utf-8")
    text = text.replace("/* style.css */", page.joinpath("style.css").read_text(encoding="utf-8"))
    for name, value in (("TITLE", title), ("OPEN", open_word), ("SUMMARY", summary)):
        text = text.replace(name, escape(value))
    file.parent.mkdir(parents=True, exist_ok=True)
    # Last, so that no text of a finding is replaced as a placeholder.
    file.write_text(text.replace("FINDINGS", "\n".join(map(_section, findings))), encoding="utf-8")
    return file


def _section(each: Finding) -> str:
    kind = "passed" if each.is_good else "failed"
    difference = f"<pre>{''.join(map(_line, each.difference.splitlines()))}</pre>" if each.difference else ""
    mark = "✓" if each.is_good else "✗"
    return (
        f'<section class="{kind}"><h2>{escape(each.place)}</h2><p>{mark} {escape(each.text)}</p>{difference}</section>'
    )


def _line(text: str) -> str:
    tag = "del" if text.startswith("-") else "ins"
    return f"<{tag}>{escape(text)}</{tag}>\n"
