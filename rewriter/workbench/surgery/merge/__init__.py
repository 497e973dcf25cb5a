"""Several models as one."""
