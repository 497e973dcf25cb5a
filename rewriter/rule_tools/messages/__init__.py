"""The pages of message codes, as Markdown, and their reader."""
