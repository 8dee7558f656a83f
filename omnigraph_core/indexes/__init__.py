"""Indexes: which columns get one, and keeping them up with the data. No answer depends on them."""
