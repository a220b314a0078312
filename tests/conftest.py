"""What tests of several rooms share: where the project and the material beside it are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each of several JVMs takes less memory: see `kestrel_sql.spark.runtime.session`.
    os.environ.setdefault("KESTREL_TEST_HEAP", "850m")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specification and foreign corpora; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    return folder
