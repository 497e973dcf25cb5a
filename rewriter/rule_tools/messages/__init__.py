"""The pages of message codes, as Markdown, and what reads them."""
