"""Text to tree and back: what `language.parse` and `rule_tools.format` are made of."""
