"""One module a command; importing one registers nothing, `register(app)` does."""
