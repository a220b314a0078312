"""Say which extra brings a package that is missing."""

from __future__ import annotations

PACKAGES = frozenset({"deepdiff", "fastjsonschema", "jsonschema", "pytest", "xdist"})
"""The import packages of the extra `qtt`."""


def missing(error: ModuleNotFoundError) -> str:
    """Say what to install, given that the harness could not be imported.

    Raise `error` itself if no extra brings the module.
    """
    package = (error.name or "").partition(".")[0]
    if package not in PACKAGES:
        raise error
    return f"the harness needs the package {package}, which pip install 'kestrel-sql[qtt]' brings"
