"""The contents of a model, and the differences of two models."""
