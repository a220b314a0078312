"""What `kestrel shadow` says: progress, the first difference of each kind, and the verdict."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kestrel_sql.cli.record_files import record_members
from kestrel_sql.cli.render import shown, to_json, warn
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.offsets import to_members
from kestrel_sql.kafka.shadow.causes import Causes
from kestrel_sql.kafka.shadow.matching import SIDES, Difference
from kestrel_sql.kafka.shadow.shadow import Progress, Verdict
from kestrel_sql.kafka.shadow.written import ABSENT, Unreadable

_QUIET_S = 10.0
_MOST_KINDS = 100
"""How many kinds are told apart: keys of maps are columns, too."""

_OTHERS = "what has no kind of its own here"
_TITLES = {
    "only left": "a record is missing on the right",
    "only right": "a record is on the right only",
    "twice left": "a record is there once more on the left",
    "twice right": "a record is there once more on the right",
    "order": "records of a key are in another order",
}


class Report(msgspec.Struct, kw_only=True):
    """Prints what is found; `counts` has how many differences there are by sink and kind."""

    causes: Causes
    is_json: bool
    out: Console
    errors: Console
    counts: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    _started: float = msgspec.field(default_factory=time.monotonic)
    _printed: float = float("-inf")
    _shown: str = "starting"

    @contextmanager
    def live(self) -> Iterator[None]:
        """Redraw the progress on a terminal; differences that go to a file must not be drawn there instead."""
        if self.is_json or not self.errors.is_terminal:
            yield
            return
        self._printed = float("inf")
        with Live(
            console=self.errors,
            get_renderable=lambda: Text(self._shown),
            refresh_per_second=2,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        ):
            yield

    def progress(self, progress: Progress) -> None:
        """Show how far the comparison is: in place on a terminal, now and then elsewhere."""
        self._shown = self._line(progress)
        if time.monotonic() - self._printed > _QUIET_S:
            self._printed = time.monotonic()
            if self.is_json:
                self._json("progress", self._members(progress))
            else:
                self.errors.print(Text(self._shown), soft_wrap=True)

    def difference(self, difference: Difference) -> None:
        """Count a difference, and print the first one of its kind with the inputs that may have caused it."""
        name, kind = difference.sink.name, difference.kind
        if (name, kind) not in self.counts and len(self.counts) >= _MOST_KINDS:
            self.counts[name, _OTHERS] += 1
            return
        self.counts[name, kind] += 1
        if self.counts[name, kind] > 1:
            return
        sides = {SIDES[each.side]: _record(difference, each.side) for each in difference.records if each is not None}
        columns = [
            {"name": each.name, "left": _plain(each.left), "right": _plain(each.right)} for each in difference.columns
        ]
        inputs = self._inputs(difference)
        if self.is_json:
            self._json("difference", {"sink": name, "kind": kind, **sides, "columns": columns, "inputs": inputs})
            return
        lines = [f"{name}: {title(kind)}"]
        lines += [f"  {side}: {_described(members)}" for side, members in sides.items()]
        lines += [f"  {each['name']}: {shown(each['left'])} left, {shown(each['right'])} right" for each in columns]
        lines += [f"  input: {_described(members)}" for members in inputs]
        self.out.print(Text("\n".join(lines)), soft_wrap=True)

    def verdict(self, verdict: Verdict) -> None:
        """Print what came out."""
        if self.is_json:
            counts = [{"sink": sink, "kind": kind, "count": count} for (sink, kind), count in self.counts.items()]
            offsets = {name: to_members(each) for name, each in zip(SIDES, verdict.offsets, strict=True)}
            members = {"equal": not self.counts, **self._members(verdict.progress), "keys": dict(verdict.keys)}
            self._json("verdict", {**members, "kinds": counts, "offsets": offsets})
            return
        for line in self._verdict(verdict):
            self.out.print(Text(line), soft_wrap=True)

    def _verdict(self, verdict: Verdict) -> Iterator[str]:
        count, differ = verdict.progress.matched, sum(self.counts.values())
        agree = f"{count:,} record{'' if count == 1 else 's'}"
        yield f"different: {differ:,}, of which" if differ else f"equal up to these offsets: {agree}"
        for (sink, kind), count in self.counts.items():
            yield f"  {count:,} in {sink}: {title(kind)}"
        if differ:
            yield f"  and {agree} agree up to these offsets:"
        for name, offsets in zip(SIDES, verdict.offsets, strict=True):
            places = ", ".join(f"{topic}-{partition} {at:,}" for (topic, partition), at in sorted(offsets.items()))
            yield f"  {name}: {places or 'nothing was written'}"
        for name, count in verdict.keys.items():
            yield f"  {name} is a table, of which the last values of {count:,} keys count"
        for name, count in zip(SIDES, verdict.progress.waiting, strict=True):
            if count:
                yield f"  not compared: {count:,} records at the end that only the {name} side has written so far"

    def _line(self, progress: Progress) -> str:
        sides = [
            f"{name} {read:,} read, lag {'unknown' if lag is None else f'{lag:,}'}, {waiting:,} ahead"
            for name, read, lag, waiting in zip(SIDES, progress.read, progress.lag, progress.waiting, strict=True)
        ]
        rate = sum(progress.read) / max(time.monotonic() - self._started, 1)
        differ = sum(self.counts.values())
        return f"{progress.matched:,} agree, {differ:,} differ; {'; '.join(sides)}; {rate:,.0f} records/s"

    def _members(self, progress: Progress) -> dict[str, object]:
        sides = {
            name: {"read": progress.read[at], "lag": progress.lag[at], "ahead": progress.waiting[at]}
            for at, name in enumerate(SIDES)
        }
        return {"agree": progress.matched, "differ": sum(self.counts.values()), **sides}

    def _inputs(self, difference: Difference) -> list[dict[str, object]]:
        try:
            found = self.causes.near(difference)
            return [{**record_members(*each), **_place(each[1].partition, each[1].offset)} for each in found]
        except EngineError as error:
            # It is not the inputs that are judged.
            warn(self.errors)(f"the inputs of this difference cannot be read: {error.message}")
            return []

    def _json(self, name: str, members: Mapping[str, object]) -> None:
        self.out.file.write(f"{to_json({name: members})}\n")
        self.out.file.flush()


def _record(difference: Difference, side: int) -> dict[str, object]:
    written, reader = difference.records[side], difference.readers[side]
    if written is None:
        return {}
    (key, window), (_, timestamp, headers) = reader.key(written.key), written.content
    members = {"key": _plain(key), "value": _plain(reader.value(written.value)), "timestamp": timestamp}
    members |= {} if window is None else {"window": {"start": window[0], "end": window[1]}}
    members |= {"headers": [{"KEY": name, "VALUE": value} for name, value in headers]} if headers else {}
    return {**members, **_place(written.partition, written.offset)}


def _place(partition: int, offset: int) -> dict[str, int]:
    return {"partition": partition, "offset": offset}


def _described(members: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value if name == 'topic' else to_json(value)}" for name, value in members.items())


def _plain(value: object) -> object:
    if isinstance(value, Unreadable):
        return f"unreadable: {value.why}"
    return "absent" if value is ABSENT else value


def title(kind: str) -> str:
    """A kind of difference in words."""
    return _TITLES.get(kind) or f"{kind} differs"
