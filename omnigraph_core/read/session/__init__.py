"""What one read works with: its tables, the entities it has met, its budget, its statistics."""
