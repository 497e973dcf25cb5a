"""Commands about the commands."""
