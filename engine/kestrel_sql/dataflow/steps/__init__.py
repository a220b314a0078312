"""What each step makes of rows, in modules named as in `kestrel_sql.plan.steps`."""
