"""The nodes of syntax trees."""
