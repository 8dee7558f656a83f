"""Differences: of values, of the rows of a type, of two states of a graph."""
