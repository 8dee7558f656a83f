"""Doing the steps of a match: scans, joins, hops, negations."""
