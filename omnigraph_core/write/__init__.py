"""The one door: everything that changes a graph goes through this package."""
