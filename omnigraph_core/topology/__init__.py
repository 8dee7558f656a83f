"""Topology: ids as numbers and edges as arrays, by table version; read whole or looked up."""
