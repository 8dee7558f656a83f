"""The library under the `omnigraph` command: everything but what a person types and sees."""

__version__ = "0.1.0"
