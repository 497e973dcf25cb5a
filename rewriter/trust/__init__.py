"""Tests of rules and of results: why you can trust a rule, or a repaired model.

`proof` runs models: random models for a rule (`rewriter verify`), a repaired model before and after, two models to compare.
`rule_tests` runs the tests in rule files. `source` reads the framework's own file next to a model. `stamp` writes a record into
a repaired model, and `check_record` repeats the run to check it. `plans` are repairs to accept one by one, and `difference`
compares two models.

Begin with `proof/guard.py`, which rolls back rewrites that left a model worse, and with `proof/rules/verify_rule.py`.
"""
