"""Expands short forms of the language into plain ones, as you would write them without the short forms."""
