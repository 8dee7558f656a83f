"""The schema a graph has: its files, the history of schemas by hash, and whether they agree."""
