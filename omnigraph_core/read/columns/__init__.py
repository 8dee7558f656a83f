"""Values in columns as a read compares, orders and numbers them. Knows no table."""
