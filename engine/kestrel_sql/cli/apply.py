"""The command `kestrel apply`, which has the options of `kestrel plan`."""

from __future__ import annotations

from functools import partial

from kestrel_sql.cli import plan

command = plan.command
add_parser = partial(plan.add_parser, name="apply")
