"""The model of docs/performance.md predicts the measured points."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.scale_model import NAMES, Point, fit, read_points

WITHIN = 0.3


def test_the_model_predicts_the_measured_points() -> None:
    points = read_points()
    model = fit(points)
    assert [point for point in points if abs(model.error(point)) > WITHIN] == []
    assert {point.queries for point in points} == {1, 8, 50, 200}
    assert max(point.keys for point in points) == 10_000_000


def test_a_fit_finds_the_costs_of_exact_points() -> None:
    costs = (0.2, 0.1, 1e-3, 2e-5, 3e-6, 4e-7)
    grid = [(1, 1, 1000, 100), (1, 2, 100_000, 1000), (4, 1, 1000, 5000), (8, 2, 10_000, 100), (2, 1, 70, 9000)]
    grid += [(1, 1, 1_000_000, 30), (3, 2, 500, 500), (1, 1, 5_000_000, 9000)]
    points = []
    for queries, tasks, keys, records in grid:
        point = Point(queries=queries, tasks=tasks, pages=64 // tasks, keys=keys, records=records, seconds=1)
        seconds = sum(cost * feature for cost, feature in zip(costs, point.features(), strict=True))
        points.append(replace(point, seconds=seconds))
    assert fit(points).costs == pytest.approx(costs)
    assert len(costs) == len(NAMES)


def test_costs_are_not_negative() -> None:
    points = [
        Point(queries=1, tasks=1, pages=64, keys=at, records=1000, seconds=2 - at / 1000) for at in (100, 500, 900)
    ]
    assert min(fit(points).costs) >= 0
