"""Whether and how a pattern stands at a place."""
