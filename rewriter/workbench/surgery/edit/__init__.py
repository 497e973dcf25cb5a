"""Edits of a model, done in order."""
