"""Cases of statements and the answers that a server gives to them."""
