"""The serialised plan: steps, DDL commands and the JSON codec."""
