"""The compiler's checks of a rule before a model is seen, one concern in a file; begin with `check`."""
