"""Executing reads: one checked query against one immutable snapshot, answered as Arrow."""
