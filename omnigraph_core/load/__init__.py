"""Loading: bytes to checked, typed rows that still know their file and line."""
