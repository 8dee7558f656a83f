"""Warm starts: a background process that has imported everything forks once per command."""
