"""Models from file to file: what the commands and `rewriter.fix` have in common."""
