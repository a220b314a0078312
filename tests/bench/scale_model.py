"""A linear model of what a batch costs, fitted to measured points (docs/performance.md)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np

from kestrel_sql.operators.state_codec import BUCKETED_FROM
from tests.bench.tables import write_table

POINTS = Path(os.environ.get("POINTS") or Path(__file__).with_name("scale_points.json"))
"""What `python -m tests.bench scale` measured last."""

MEANINGS = {
    "round": "a batch, whatever it holds",
    "query": "planning and bookkeeping of the batch of one query",
    "page": "reading, calling and writing a page of state",
    "record": "decoding, grouping and aggregating a record",
    "key": "decoding and encoding a key",
    "byte": "reading and writing the bytes of a key on a page that is touched",
}
NAMES = tuple(MEANINGS)

_ROWS_A_BUCKET = 12
"""Between 8 and 16."""

CORES = 2
"""The number of cores of the machine that measured the points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured batch of equal queries that run at once.

    Attributes:
        queries: the number of queries.
        tasks: the number of tasks of each.
        pages: the number of pages of each task.
        keys: the number of keys in the state of each.
        records: the number of records in the batch of each.
        seconds: until the last of them has committed it.
    """

    queries: int
    tasks: int
    pages: int
    keys: int
    records: int
    seconds: float

    def features(self, cores: int = CORES) -> tuple[float, ...]:
        """Return what the costs of `NAMES` are multiplied with, on a machine with a number of cores."""
        pages = self.pages * self.tasks
        touched = min(self.records, self.keys, pages)
        # The bytes of all keys on the pages that a batch touches are copied.
        moved = self.keys * touched / pages
        # Of a large page a batch decodes and encodes the buckets that it touches, of a small one all keys.
        buckets = self.keys / _ROWS_A_BUCKET
        decoded = moved if self.keys < pages * BUCKETED_FROM else self.keys * (1 - math.exp(-self.records / buckets))
        # The driver plans a batch on one core; tasks share the others.
        share = self.queries / min(cores, self.queries * self.tasks)
        return (1.0, self.queries, share * touched, share * self.records, share * decoded, share * moved)


@dataclass(frozen=True, slots=True)
class Model:
    """The seconds that a round, a query, a page, a record, a decoded key and a key that is only copied cost."""

    costs: tuple[float, ...]

    def predict(self, point: Point) -> float:
        """Return the seconds that a batch takes."""
        return float(np.dot(self.costs, point.features()))

    def error(self, point: Point) -> float:
        """Return how far the prediction is from the measured time, relative to it."""
        return self.predict(point) / point.seconds - 1


def fit(points: Sequence[Point]) -> Model:
    """Fit costs that are not negative, with the least relative errors."""
    features = np.array([point.features() for point in points]) / np.array([[point.seconds] for point in points])
    used = list(range(len(NAMES)))
    while True:
        found, *_ = np.linalg.lstsq(features[:, used], np.ones(len(points)), rcond=None)
        if (found >= 0).all():
            break
        used.pop(int(found.argmin()))
    costs = np.zeros(len(NAMES))
    costs[used] = found
    return Model(tuple(costs.tolist()))


def read_points(file: Path = POINTS) -> list[Point]:
    """Read measured points."""
    return [Point(**each) for each in json.loads(file.read_text(encoding="utf-8"))]


def write_points(points: Sequence[Point], file: Path = POINTS) -> None:
    """Write measured points."""
    lines = ",\n".join(f"  {json.dumps(asdict(point))}" for point in points)
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def write_model(points: Sequence[Point]) -> None:
    """Write what the fitted costs are, and how near the model comes to the points of the most records."""
    model = fit(points)
    rows = ([name, f"{cost * 1000:.5f}", MEANINGS[name]] for name, cost in zip(NAMES, model.costs, strict=True))
    write_table("scale-costs", ["Cost", "Milliseconds", "What it is"], rows)
    most = max(point.records for point in points)
    shown = sorted((each for each in points if each.records == most and each.tasks == 1), key=astuple)
    write_table(
        "scale-points",
        ["Queries", "Keys of each", f"A batch of {most:,} records", "By the model"],
        ([f"{p.queries}", f"{p.keys:,}", f"{p.seconds:.2f} s", f"{model.predict(p):.2f} s"] for p in shown),
    )
