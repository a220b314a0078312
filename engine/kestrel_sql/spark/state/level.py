"""A stateful level, as packing, hosting and unpacking use it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.errors import QueryError
from kestrel_sql.operators.aggregates.group_rows import new_group
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.group_columns import shape_of
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.operators.tables.table_store import TableStore
from kestrel_sql.spark.envelope import ENVELOPE_FIELDS, rows_of, struct_field, struct_text
from kestrel_sql.spark.state.widening import widenings

PLAN = "plan"
"""The member of a page's blob with the fingerprint of the level that wrote it.

The other members are states by relation.
"""


class Level(msgspec.Struct, frozen=True):
    """The operators of a level, and the relations that exist after it: their outputs, and those that pass unchanged."""

    operators: tuple[Stateful, ...]
    alive: tuple[Relation, ...]

    def outputs(self) -> frozenset[int]:
        """The relations that the level produces."""
        return frozenset(stateful.output.number for stateful in self.operators)

    def inputs(self) -> dict[int, Relation]:
        """The relations that the level reads."""
        return {relation.number: relation for stateful in self.operators for relation in stateful.inputs}

    def fingerprint(self) -> list[str]:
        """Return what the state depends on: each operator with the types that it reads.

        State belongs to one fingerprint.

        For the store of a queryable table only the key counts: CREATE OR REPLACE may add columns (rules L5), which
        stored rows lack.
        """
        found = []
        for stateful in self.operators:
            wanted = ("k",) if isinstance(stateful.operator, TableStore) else None
            read = ", ".join(struct_text(relation, wanted) for relation in stateful.inputs)
            found.append(f"{stateful.output.number} {type(stateful.operator).__name__}({read})")
        return found

    def groups(self) -> dict[int, tuple[list[int], list[pa.DataType]]]:
        """The shape of groups in columns, and the types of their non-aggregate columns, for each aggregate."""
        return {
            stateful.output.number: (
                shape_of(new_group(stateful.operator.columns, stateful.operator.calls, None)),
                [to_arrow(each.type) for each in stateful.output.schema.value[: len(stateful.operator.columns)]],
            )
            for stateful in self.operators
            if isinstance(stateful.operator, StreamAggregate | TableAggregate)
        }

    def read(self) -> pa.Schema:
        """The schema of the rows that the level reads, without log entries."""
        envelope = [field for field in ENVELOPE_FIELDS if field.name != "log"]
        return pa.schema([*envelope, *(struct_field(relation) for relation in self.inputs().values())])

    def passing(self) -> pa.Schema:
        """The schema of the rows that pass unchanged.

        The envelope and the relations that the level does not produce.
        """
        made = self.outputs()
        return pa.schema(
            [*ENVELOPE_FIELDS, *(struct_field(relation) for relation in self.alive if relation.number not in made)]
        )

    def made(self) -> pa.Schema:
        """The schema of the rows that the level produces."""
        return rows_of(stateful.output for stateful in self.operators)

    def after(self) -> pa.Schema:
        """The schema of all rows after the level."""
        return rows_of(self.alive)


def load_page(blob: bytes, fingerprint: Sequence[str]) -> State:
    """Decode a page, and widen the rows of tables whose sources have more columns by now.

    Returns:
        The state of its operators by relation, and under `PLAN` the fingerprint of the level that wrote it.

    Raises:
        QueryError: the blob cannot be read, or has another fingerprint.
    """
    state = load_state(blob)
    written = state.get(PLAN)
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise QueryError("the stored state of an operator is damaged: it does not name its operators")
    changes = widenings(written, fingerprint)
    if changes is None:
        raise QueryError(
            f"another plan wrote the checkpoint: it contains the state of {'; '.join(written)}, "
            f"and the query needs that of {'; '.join(fingerprint)}",
            hint="run the statement that wrote the checkpoint, or start with a new one",
        )
    for change in changes:
        change.apply(state)
    return state
