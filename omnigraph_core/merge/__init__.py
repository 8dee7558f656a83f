"""Three-way merges: what two sides made of a base they have in common."""
