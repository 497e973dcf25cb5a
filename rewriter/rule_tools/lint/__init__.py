"""Rules compared with each other: duplicates, rules that never get their turn, ties, circles; `rewriter lint` prints them."""
