"""Faults of a model as a whole: how each kind is found and put right. `entry.py` has them by the names that rules use."""
