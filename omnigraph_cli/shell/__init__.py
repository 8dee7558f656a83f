"""`omnigraph shell`: a prompt for queries, changes and a look around."""
