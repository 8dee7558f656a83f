"""From the clauses of a checked query to the steps of its match. Nothing is read here."""
