"""For those who write rules, and for rules as a set: checks, messages, lint, formatting, packs, and why a rule does not fire.

`load_rules` finds rule files and checks them. `checks` says what is wrong with a rule, and `messages` has a page for each
error. `lint` compares rules with each other, `format` is `rewriter fmt`, and `explain` answers `rewriter why`.

The core can run a rule without any of this; a rule is checked before it reaches the core. Begin with `load_rules.py`.
"""
