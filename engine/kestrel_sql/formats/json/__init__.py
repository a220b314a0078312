"""The formats JSON and JSON_SR."""
