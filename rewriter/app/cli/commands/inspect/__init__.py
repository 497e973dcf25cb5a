"""Commands that show what models are, and how they differ."""
