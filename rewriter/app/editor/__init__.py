"""What editors are told of rule files: colours, and a language server."""
