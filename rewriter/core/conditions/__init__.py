"""The expressions of rules: a closed evaluator with a fixed table of functions, three truth values and bounded results."""
