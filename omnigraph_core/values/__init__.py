"""Values: which ones a column takes, what they become, how they are compared and named. Knows no graph."""
