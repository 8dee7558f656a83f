"""Changing a graph with mutations: from `.gq` statements to a change set, and from that to a write plan."""
