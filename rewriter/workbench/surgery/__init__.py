"""Cutting models, joining them, and editing what they say of themselves."""
