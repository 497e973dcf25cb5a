"""Help for people who write rules: rules begun from a model, expected models of tests, packs."""
