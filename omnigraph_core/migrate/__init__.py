"""Schema migrations: what the data says to a plan."""
