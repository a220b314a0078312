"""The registry of built-in functions; a new family is one more module in this list."""

from __future__ import annotations

from kestrel_sql.functions.library import nulls
from kestrel_sql.functions.library.aggregates import by_offset, count_distinct, extremes, statistics, sums
from kestrel_sql.functions.library.aggregates import collections as collected
from kestrel_sql.functions.library.collections import arrays, headers, lambdas, maps, table_functions
from kestrel_sql.functions.library.numbers import bytes as of_bytes
from kestrel_sql.functions.library.numbers import reals, rounding
from kestrel_sql.functions.library.text import conversions, json, masks, regex, strings, urls
from kestrel_sql.functions.library.time import dates, times, timestamps
from kestrel_sql.functions.registry import Registry, collect

FUNCTIONS: Registry = collect(
    *(by_offset, collected, count_distinct, extremes, statistics, sums),
    *(arrays, headers, lambdas, maps, table_functions),
    *(nulls, of_bytes, reals, rounding),
    *(conversions, json, masks, regex, strings, urls),
    *(dates, times, timestamps),
)
