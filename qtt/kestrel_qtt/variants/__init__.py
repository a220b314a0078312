"""Cases with changed statements or records: mutants that cases should notice, and failing cases made small."""
