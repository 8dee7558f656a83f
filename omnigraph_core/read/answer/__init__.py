"""From the rows of a match to an answer: groups, order, limit, columns."""
