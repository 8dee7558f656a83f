"""Graphs that the Rust original made, as the values every reader works on.

The original and we share the layout of the seeds. What it does not have is a head row, our compiled
form of a schema, and some columns of the history. This floor makes up for that without writing.
"""
