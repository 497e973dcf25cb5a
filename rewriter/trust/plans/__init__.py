"""Plans: the rewrites that rules would do to a model, which you accept or reject one by one."""
