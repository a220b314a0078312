"""One builder per step, in modules named as in engine.plan.steps."""
