"""`make demo-takeover`: a service of ksqlDB's own server is stopped and taken over, and its outputs are compared."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker
from tests.kafka.demo import say
from tests.kafka.helpers import read
from tests.kafka.ksqldb import COMMAND
from tests.kafka.scenario import LEAN
from tests.kafka.servers import Server, Servers, eventually
from tests.kafka.takeover import PARTITIONS, TakeOver, statement

QUERIES = ("hopping", "sessions", "looked_up")
BEFORE, AFTER, AT_ONCE = 2400, 1200, 200


def main() -> int:
    """Run the demonstration and return whether the outputs are equal."""
    if not COMMAND.exists():
        say(f"{COMMAND.parent} is absent: there is no server of ksqlDB to take over from")
        return 0
    with ExitStack() as stack:
        say("starting a broker")
        broker = stack.enter_context(Broker.start())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return _show(Servers(broker.address, folder, stack))


def _show(servers: Servers) -> int:
    say("starting ksqlDB's own server twice: one will be taken over, the other one shows what is right")
    scene = TakeOver.begin(servers, QUERIES, second=0)
    for query in QUERIES:
        say(statement(servers.service, query))
    say(f"both run these queries over the same topics; writing {BEFORE} records")
    scene.feed(BEFORE, AT_ONCE)
    scene.stop()
    written = {query: len(_sink(servers, query)) for query in QUERIES}
    say(f"ksqlDB is stopped when it has read them and written {sum(written.values())}; the source topics are emptied")
    say("`kestrel serve --adopt` takes its place: it waits for ksqlDB's groups to end, 10 s here")
    heir = servers.start("--adopt", *LEAN)
    say(f"writing {AFTER} more records")
    scene.feed(AFTER, AT_ONCE)
    _await_heir(heir)
    return judge(scene, written)


def _await_heir(heir: Server) -> None:
    """Show what Kestrel says until all queries go on."""
    shown: list[str] = []

    def goes_on() -> bool:
        said = heir.said().rpartition("\n")[0].splitlines()
        for line in said[len(shown) :]:
            say(line)
        shown[:] = said
        return sum("goes on" in line for line in said) == len(QUERIES)

    eventually(goes_on, heir)


def judge(scene: TakeOver, written: Mapping[str, int]) -> int:
    """Compare the sinks with those of the other service; return 0 if they are equal."""
    flaws = 0
    for query in QUERIES:
        ours, wanted = scene.outputs(query)
        differing = len(ours.items() ^ wanted.items())
        flaws += differing
        more = len(_sink(scene.servers, query)) - written[query]
        say(
            f"{query}: ksqlDB wrote {written[query]} records and Kestrel {more};"
            f" of {len(wanted)} results {differing or 'none'} differ"
        )
    say("something is wrong" if flaws else "both together wrote what the undisturbed ksqlDB wrote")
    return 1 if flaws else 0


def _sink(servers: Servers, query: str) -> list[object]:
    return [*read(servers.servers, f"{servers.service}{query}", PARTITIONS)]


if __name__ == "__main__":
    sys.exit(main())
