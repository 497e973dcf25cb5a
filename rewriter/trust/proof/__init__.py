"""Evidence that a rule is correct, and that a rewritten model is: runs of models, and the outputs that must agree.

`guard` keeps `fix` from making a model worse, and `equivalence` is `--verify`. `instances` makes random models for a rule, and
`rules` runs it on them.
"""
