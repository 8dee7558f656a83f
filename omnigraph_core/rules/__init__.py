"""Rules: a change set, and all that it breaks, by itself and against one state of the graph."""
