"""What the compiler asks of a rule before a model is seen, one concern a file; `check` is the way in."""
