"""The status tables."""
