"""Why a rule, or a repaired model, may be believed.

`proof` runs models: rules on random instances (`rewriter verify`), repaired models before judges, two models side by side.
`rule_tests` runs the tests in rule files. `source` reads the framework's own file beside a model. `stamp` leaves a record in a
repaired model, and `check_record` believes none of it; `plans` are repairs to accept one by one, and `difference` compares two
models.

Begin with `proof/models/guard.py`, which takes back a rewrite that left a model worse, and with `proof/rules/verify_rule.py`.
"""
