"""Source information: facts about a node in the framework's own file that the exporter threw away."""
