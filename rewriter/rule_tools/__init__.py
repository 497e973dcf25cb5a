"""Tools for authors of rules: checks, messages, lint, formatting, packs, and why a rule fires or not.

`load_rules` finds rule files and checks them. `checks` finds errors in one rule, and `messages` has a page for each error.
`lint` compares rules with each other, `format` is `rewriter fmt`, and `explain` is `rewriter why`.

The core runs rules without this tier, but every rule is checked here before it reaches the core. Begin with `load_rules.py`.
"""
