"""Looking after a graph: what is done to it as a whole, not to its content."""
