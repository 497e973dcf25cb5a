"""Faults of a whole model: how each kind is found and repaired. `entry.py` has them by the names that rules use."""
