"""The driver for every form of case: those of records, of REST answers, and SQL scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.records.driver import RecordDriver
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase


class FullDriver(RecordDriver):
    """Runs cases of all forms: those of records over the given topics, the others on engines in memory."""

    def carrier_of(self, case: model.Case) -> str:
        """What runs the queries of a case; engines in memory run theirs in the process."""
        return super().carrier_of(case) if case.has_records else "process"

    def run(
        self, cases: Sequence[model.Case], options: RunOptions
    ) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Run the cases; each is yielded once with its outcome and its share of the seconds."""
        rest = [case for case in cases if isinstance(case, RestCase)]
        scripts = [case for case in cases if isinstance(case, ScriptCase)]
        records = [case for case in cases if case.has_records]
        if records:
            yield from super().run(records, options)
        # The engine of `kestrel shell` is imported where a case needs it: most runs have cases of records only.
        if rest:
            from kestrel_qtt.drivers.rest import run_rest

            yield from run_rest(rest)
        if scripts:
            from kestrel_qtt.drivers.sql_script import run_scripts

            yield from run_scripts(scripts)
