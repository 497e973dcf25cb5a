"""Whether a rewritten model is correct: the guard of `fix`, `--verify` and `compare`."""
