"""Whether a rewritten model may be believed: the guard of `fix`, `--verify` and `compare`."""
