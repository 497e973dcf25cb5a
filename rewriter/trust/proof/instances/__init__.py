"""Small models on which a rule is tried: drawn from its pattern and from its own tests."""
