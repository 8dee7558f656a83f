"""Searching: words, nearly equal words, nearest vectors, and ranking by them."""
