"""What a query says: scopes, columns, join criteria, and the rules that it must follow."""
