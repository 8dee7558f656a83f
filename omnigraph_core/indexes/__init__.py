"""Indexes: which columns have one, and keeping them up to date. No answer depends on them."""
