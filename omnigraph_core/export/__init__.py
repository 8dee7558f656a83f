"""Taking data out of a graph: one snapshot, in a fixed order, without loss."""
