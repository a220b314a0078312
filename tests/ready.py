"""Archive Spark's classes before the tests, if that was not done yet.

Each run against a broker starts a JVM of its own.

    python -m tests.ready            (what `make test` calls)

Where it cannot be made, tests do without.
"""

from __future__ import annotations

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector.prepare import prepare
from kestrel_sql.spark.runtime.class_archive import archive_path


def main() -> None:
    """Do what `kestrel prepare` does; without the archive tests take longer, and say the same."""
    if archive_path().exists():
        return
    try:
        prepare(print)
    except EngineError as error:
        print(f"Tests start Spark without an archive of its classes: {error.message}")


if __name__ == "__main__":
    main()
