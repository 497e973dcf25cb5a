"""Rule files in editors: colours, and a language server."""
