"""The one place that maps a store of ksqlDB, by its changelog, to the state of the operator that keeps the same."""

from __future__ import annotations

import re
import struct
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import singledispatchmethod
from typing import Any

import msgspec

from kestrel_sql.dataflow.aggregate_operators import AnyAggregate
from kestrel_sql.dataflow.graph import Graph, Stateful
from kestrel_sql.errors import QueryError, SerdeError
from kestrel_sql.formats.serde import Decoder
from kestrel_sql.formats.table import decoder
from kestrel_sql.kafka.takeover.intermediates import sequence_number, state_of, variables
from kestrel_sql.kafka.takeover.internal import Serde, logger_of, name_of, specs
from kestrel_sql.kafka.takeover.left import CHANGELOG, Left
from kestrel_sql.operators.aggregates.sessions import SessionWindowAggregate
from kestrel_sql.operators.aggregates.suppress import TableSuppress
from kestrel_sql.operators.aggregates.unwindowed import StreamAggregate, TableAggregate
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate
from kestrel_sql.operators.group_state import STATES, Group
from kestrel_sql.operators.joins.stream_stream import StreamStreamJoin
from kestrel_sql.operators.operator import Key, State
from kestrel_sql.operators.tables.stream_time import StreamTime
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import StreamAggregateV1, StreamWindowedAggregateV1, TableAggregateV1
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1
from kestrel_sql.sql.nodes.statements import JoinType
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import Column

States = dict[int, State]
"""The state of an operator by task."""

_TIMED, _SESSION, _ENTRY, _SHARED = (struct.Struct(form) for form in (">qi", ">qq", ">qi", ">q?"))
_LENGTH = struct.Struct(">i")
_BUFFER = re.compile(r"KSTREAM-(JOINTHIS|OUTERTHIS|JOINOTHER|OUTEROTHER|OUTERSHARED)-(\d+)-store")


class _Group(msgspec.Struct, frozen=True):
    """A group of an aggregate, with the key and the bounds that its window adds to it."""

    task: int
    key: Key
    tail: bytes
    timestamp: int
    group: Group


class Stores(msgspec.Struct):
    """The stores of one query.

    Attributes:
        graph: the graph of the query.
        left: what the query left.
        serde: completes a spec with the schemas of the registry.
        keys: the number of keys of each store that became state.
    """

    graph: Graph
    left: Left
    serde: Serde
    keys: dict[str, int]

    def states(self, stateful: Stateful) -> States | None:
        """Return the state of an operator; None for one whose state the rows of tables make.

        Raises:
            QueryError: a store is missing or cannot be read.
        """
        return self._states(stateful.operator, stateful)

    @singledispatchmethod
    def _states(self, operator: object, stateful: Stateful) -> States | None:
        return None

    @_states.register
    def _(self, operator: TableSuppress, stateful: Stateful) -> States:
        raise QueryError("its plan is of a release that holds windows back in a store of its own")

    @_states.register
    def _(self, operator: StreamTime, stateful: Stateful) -> States:
        times = ((task, self.left.time(task)) for task in {partition for _, partition in self.left.committed})
        return {task: {"time": time} for task, time in times if time is not None}

    @_states.register
    def _(self, operator: StreamAggregate | TableAggregate, stateful: Stateful) -> States:
        step = self._step(stateful, StreamAggregateV1, TableAggregateV1)
        found: States = defaultdict(dict)
        groups = [*self._groups(step, stateful, 0)]
        for each in groups:
            found[each.task].setdefault("groups", {})[operator.key_bytes(each.key)] = each.group
        return self._numbered(step, found, groups)

    @_states.register
    def _(self, operator: TimeWindowAggregate, stateful: Stateful) -> States:
        step = self._step(stateful, StreamWindowedAggregateV1)
        found: States = {}
        groups = [*self._groups(step, stateful, _TIMED.size)]
        for each in groups:
            start, _ = _TIMED.unpack(each.tail)
            own = found.setdefault(each.task, {"time": each.timestamp, "windows": {}, "starts": [], "newest": start})
            own["time"], own["newest"] = max(own["time"], each.timestamp), max(own["newest"], start)
            if not self._is_out(step, operator.final, each.task, start + operator.size_ms):
                group = [*each.group, list(each.key)]
                own["windows"].setdefault(start, {})[operator.key_bytes(each.key)] = group
        for own in found.values():
            own["starts"] = sorted(own["windows"])
            if not operator.final:
                # Windows that have closed, and are not out, are written even if they are older.
                operator.forget(own)
        return self._packed(operator, self._numbered(step, found, groups))

    @_states.register
    def _(self, operator: SessionWindowAggregate, stateful: Stateful) -> States:
        step = self._step(stateful, StreamWindowedAggregateV1)
        found: States = {}
        groups = [*self._groups(step, stateful, _SESSION.size)]
        for each in groups:
            end, start = _SESSION.unpack(each.tail)
            fresh = {"time": each.timestamp, "newest": end, "sessions": {}, "ends": []}
            own = found.setdefault(each.task, fresh)
            own["time"], own["newest"] = max(own["time"], each.timestamp), max(own["newest"], end)
            if not self._is_out(step, operator.final, each.task, end):
                packed = operator.key_bytes(each.key)
                own["sessions"].setdefault(packed, []).append([end, start, each.group, list(each.key)])
                own["ends"].append([end, start, packed])
        for own in found.values():
            own["ends"].sort()
            for sessions in own["sessions"].values():
                sessions.sort(key=lambda session: session[:2])
            if not operator.final:
                operator.prune(own)
        return self._packed(operator, self._numbered(step, found, groups))

    @_states.register
    def _(self, operator: StreamStreamJoin, stateful: Stateful) -> States:
        step = self._step(stateful, StreamStreamJoinV1)
        if any(relation.window is not None for relation in stateful.inputs):
            raise QueryError("the windows of its join have keys with windows")
        found: States = {}
        names = self._buffers(stateful)
        is_right = operator.join_type is JoinType.RIGHT
        formats = (step.left_internal_formats, step.right_internal_formats)
        for side, name in enumerate(reversed(names[:2]) if is_right else names[:2]):
            relation = stateful.inputs[side]
            for record, key, value, tail in self._rows(
                name, formats[side], relation.schema.key, relation.schema.value, _ENTRY.size
            ):
                timestamp, _ = _ENTRY.unpack(tail)
                own = found.setdefault(record.partition, {"time": timestamp})
                own["time"] = max(own["time"], timestamp)
                part = own.setdefault(("left", "right")[side], {"newest": timestamp, "rows": {}, "ages": []})
                part["newest"] = max(part["newest"], timestamp)
                packed = operator.key_bytes(key)
                part["rows"].setdefault(packed, []).append([timestamp, list(value)])
                part["ages"].append([timestamp, packed])
        for own in found.values():
            for part in (own[name] for name in ("left", "right") if name in own):
                _expire(part, operator.retention_ms)
        if len(names) > len(formats):
            self._wait(operator, stateful, step, names[-1], found)
        return found

    def _wait(
        self, operator: StreamStreamJoin, stateful: Stateful, step: StreamStreamJoinV1, name: str, found: States
    ) -> None:
        """Add the rows that wait for a partner."""
        decoders = [
            self._decoders(name, formats, relation.schema.key, relation.schema.value)
            for formats, relation in zip(
                (step.left_internal_formats, step.right_internal_formats), stateful.inputs, strict=True
            )
        ]
        for record in self._kept(name):
            timestamp, is_first = _SHARED.unpack_from(record.key or b"")
            rank = int(is_first)
            side = rank if operator.join_type is JoinType.RIGHT else 1 - rank
            read_key, read_value = decoders[side]
            key = read_key((record.key or b"")[_SHARED.size :]) or ()
            own = found.setdefault(record.partition, {"time": timestamp})
            pending = own.setdefault("pending", [{"ages": [], "rows": {}}, {"ages": [], "rows": {}}])[rank]
            packed = operator.key_bytes(key)
            values = [list(read_value(data) or ()) for data in _listed(record.value or b"")]
            pending["rows"].setdefault(packed, {})[timestamp] = [list(key), None, values]
            # A sorted list is also a heap.
            insort(pending["ages"], [timestamp, packed])

    def _buffers(self, stateful: Stateful) -> list[str]:
        """The stores of a join: of the left side as built, of the right side, and that of rows without a partner."""
        joins = [each for level in self.graph.levels for each in level if isinstance(each.operator, StreamStreamJoin)]
        matches = [match for name in self.left.names(CHANGELOG) if (match := _BUFFER.fullmatch(name)) is not None]
        ordered = sorted(matches, key=lambda match: int(match[2]))
        left = [match for match in ordered if match[1].endswith("THIS")]
        right = [match for match in ordered if match[1].endswith("OTHER")]
        if not len(left) == len(right) == len(joins):
            raise QueryError(f"it has the windows of {len(left)} joins, and its plan has {len(joins)}")
        at = next(number for number, each in enumerate(joins) if each is stateful)
        shared = [match[0] for match in ordered if match[1] == "OUTERSHARED" and match[2] == left[at][2]]
        return [left[at][0], right[at][0], *shared]

    def _groups(self, step: AnyAggregate, stateful: Stateful, tail: int) -> Iterator[_Group]:
        """The groups of an aggregate, whose keys end in so many bytes of a window."""
        source = stateful.inputs[0].schema
        operator: Any = stateful.operator
        columns = {column.name: column for column in source.value}
        copied = tuple(columns[name] for name in step.non_aggregate_columns)
        states = variables(step.aggregation_functions, source, self.graph.functions)
        fresh = [aggregator.initialize for aggregator, _ in operator.calls]
        for record, key, value, end in self._rows(
            _store_of(step), step.internal_formats, source.key, (*copied, *states), tail
        ):
            held = [
                state_of(call, column, make(), given)
                for call, column, make, given in zip(
                    step.aggregation_functions, states, fresh, value[len(copied) :], strict=True
                )
            ]
            yield _Group(
                record.partition, key, end, record.timestamp, [record.timestamp, [*value[: len(copied)]], held]
            )

    def _rows(
        self, store: str, formats: Any, keys: tuple[Column, ...], values: tuple[Column, ...], tail: int
    ) -> Iterator[tuple[Record, Key, tuple[Any, ...], bytes]]:
        """The rows of a store: record, key, value, and the last bytes of the key."""
        read_key, read_value = self._decoders(store, formats, keys, values)
        for record in self._kept(store):
            data = record.key or b""
            end = len(data) - tail
            try:
                key, value = read_key(data[:end]), read_value(record.value)
            except SerdeError as error:
                raise QueryError(
                    f"the store {store} has a record that cannot be read: {error} (partition {record.partition}, "
                    f"offset {record.offset})"
                ) from error
            if key is not None and value is not None:
                yield record, key, value, data[end:]

    def _decoders(
        self, store: str, formats: Any, keys: tuple[Column, ...], values: tuple[Column, ...]
    ) -> tuple[Decoder, Decoder]:
        topic = f"{self.left.prefix}{store}{CHANGELOG}"
        key, value = specs(topic, formats, keys, values, self.serde)
        return decoder(key), decoder(value)

    def _kept(self, store: str) -> list[Record]:
        """The records of a store that are no tombstones."""
        if self.left.topic(f"{store}{CHANGELOG}") is None:
            raise QueryError(f"the topic {self.left.prefix}{store}{CHANGELOG} with its state does not exist")
        lost = self.left.lost(store)
        if lost:
            raise QueryError(
                f"the broker has deleted records of {self.left.prefix}{store}{CHANGELOG} by their timestamps, in the "
                f"partitions {', '.join(map(str, lost))}"
            )
        kept = [record for record in self.left.latest(store) if record.value is not None]
        self.keys[store] = len(kept)
        return kept

    def _numbered(self, step: AnyAggregate, found: States, groups: Sequence[_Group]) -> States:
        """Let rows to come have larger numbers than all before, which functions by offset compare."""
        held = (zip(step.aggregation_functions, each.group[STATES], strict=True) for each in groups)
        number = max((sequence_number(call, state) for states in held for call, state in states), default=0)
        if number:
            for own in found.values():
                own["number"] = number
        return found

    def _is_out(self, step: AnyAggregate, final: bool, task: int, end: int) -> bool:
        """Whether a window has been emitted under EMIT FINAL."""
        emitted = self.left.emitted(_store_of(step), task) if final else None
        return emitted is not None and end <= emitted

    def _packed(self, operator: TimeWindowAggregate | SessionWindowAggregate, found: States) -> States:
        for own in found.values():
            operator.pack(own)
        return found

    def _step(self, stateful: Stateful, *kinds: type[Step]) -> Any:
        """The step of the plan that an operator comes from."""
        (plan,) = self.graph.plans.values()
        return next(
            step
            for step in plan.physical_plan.steps()
            if isinstance(step, kinds) and stateful.logger == logger_of(self.graph, step)
        )


def _store_of(step: Step) -> str:
    """The name of the store of an aggregate."""
    return f"{name_of(step)}-Materialize"


def _listed(data: bytes) -> list[bytes]:
    """The rows in a record of the store of rows that wait."""
    (count,), at, found = _LENGTH.unpack_from(data, 1), 1 + _LENGTH.size, []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length > 0:
            # The first byte says which side it is.
            found.append(data[at + 1 : at + length])
            at += length
    return found


def _expire(part: dict[str, Any], retention_ms: int) -> None:
    """Drop the rows of one input of a join that are older than its retention."""
    oldest = part["newest"] - retention_ms + 1
    rows = {key: [row for row in kept if row[0] >= oldest] for key, kept in part["rows"].items()}
    part["rows"] = {key: sorted(kept, key=lambda row: row[0]) for key, kept in rows.items() if kept}
    part["ages"] = sorted(age for age in part["ages"] if age[0] >= oldest)
