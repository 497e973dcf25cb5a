"""Cutting models, joining them, and editing their graphs, names and declarations."""
