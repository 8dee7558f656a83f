"""Commits as a table: a projection of the head rows that publishes wrote."""
