"""WITH clauses, and the formats that follow from them."""
