"""The framework that a model came from, as far as the model and its source file show it."""
