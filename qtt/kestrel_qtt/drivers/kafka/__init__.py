"""Cases on a broker: topics of their own, inputs really produced, outputs really consumed."""
