"""Serialisation formats: convert keys and values of records to rows and back."""
