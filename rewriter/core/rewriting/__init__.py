"""What a rewrite block does to a graph, as one transaction."""
