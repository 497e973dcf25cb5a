"""Plans: what rules would do to a model, for somebody to accept or reject one by one."""
