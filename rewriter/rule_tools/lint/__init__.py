"""Rules against each other: duplicates, rules that never get their turn, ties, circles; `rewriter lint` is the way in."""
