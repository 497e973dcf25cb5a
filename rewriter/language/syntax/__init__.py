"""Text to tree and back: what `language.parse` and `language.format` are made of."""
