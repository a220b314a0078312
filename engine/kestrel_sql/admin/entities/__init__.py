"""The objects that statements answer, as the API of ksqlDB names their fields."""
