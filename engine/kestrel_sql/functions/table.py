"""The registry of built-in functions; a new family is one more module in this list."""

from __future__ import annotations

from kestrel_sql.functions.library import nulls
from kestrel_sql.functions.library.aggregates import by_offset as aggregates_offsets
from kestrel_sql.functions.library.aggregates import collections as aggregates_collections
from kestrel_sql.functions.library.aggregates import count_distinct as aggregates_distinct
from kestrel_sql.functions.library.aggregates import extremes as aggregates_extremes
from kestrel_sql.functions.library.aggregates import statistics as aggregates_statistics
from kestrel_sql.functions.library.aggregates import sums as aggregates_arithmetic
from kestrel_sql.functions.library.collections import arrays, headers, lambdas, maps, table_functions
from kestrel_sql.functions.library.numbers import bytes as bytes_
from kestrel_sql.functions.library.numbers import reals
from kestrel_sql.functions.library.numbers import rounding as numbers
from kestrel_sql.functions.library.text import conversions, masks, regex, strings, urls
from kestrel_sql.functions.library.text import json as json_functions
from kestrel_sql.functions.library.time import dates, times, timestamps
from kestrel_sql.functions.registry import Registry, collect

FUNCTIONS: Registry = collect(
    aggregates_arithmetic,
    aggregates_collections,
    aggregates_distinct,
    aggregates_extremes,
    aggregates_offsets,
    aggregates_statistics,
    arrays,
    bytes_,
    conversions,
    dates,
    headers,
    json_functions,
    lambdas,
    maps,
    masks,
    nulls,
    numbers,
    reals,
    regex,
    strings,
    table_functions,
    times,
    timestamps,
    urls,
)
