"""Commands that repair models, and that show what a repair would do."""
