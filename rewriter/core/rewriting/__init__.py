"""Applies a rewrite block to a graph, as one transaction."""
