"""Have ready what the workers of the tests would otherwise make at the same time: the connector's jars, Spark's folder.

    python -m tests.ready            (what `make test` calls)

Where the jars cannot be had, the tests on a broker say so. There is no archive of Spark's classes: the tests start
seven JVMs, which win less by it than the archive takes.
"""

from __future__ import annotations

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.spark.runtime.environment import prepare_environment


def main() -> None:
    """Make both, and say which jars are not the usual ones."""
    prepare_environment()
    try:
        if note := connector_jars().note:
            print(note)
    except EngineError as error:
        print(f"Tests start without the jars of Spark's connector: {error.message}")


if __name__ == "__main__":
    main()
