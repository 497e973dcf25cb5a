"""Evidence that a rule is correct, and that a rewritten model is: runs of models, and the outputs that must agree."""
