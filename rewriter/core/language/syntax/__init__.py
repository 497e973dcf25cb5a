"""Text to tree and back: the parts of `language.parse` and `rule_tools.format`."""
