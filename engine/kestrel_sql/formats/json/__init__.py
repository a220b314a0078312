"""JSON and JSON_SR."""
