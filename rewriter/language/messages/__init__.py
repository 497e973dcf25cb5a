"""The page of every message code: what it means, a wrong example, the right one."""
