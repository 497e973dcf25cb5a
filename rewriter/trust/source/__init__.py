"""Source information: what the framework's own file says about a node that the exporter threw away."""
