"""Lowering: builds plan steps from analysed queries."""
