"""The plan of a statement: steps, DDL commands and their JSON form."""
