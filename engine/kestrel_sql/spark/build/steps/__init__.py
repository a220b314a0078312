"""One builder per step, in modules named as in `kestrel_sql.plan.steps`."""
