"""What a project has written down about how its models are to be rewritten."""
