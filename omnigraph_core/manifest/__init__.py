"""L2: `__manifest`, the one dataset whose newest version says what the graph is.

A publish is a single write to it; whatever it does not name does not exist.
"""
