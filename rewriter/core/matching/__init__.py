"""Whether and how a pattern matches at a place.

Most rules cannot fire anywhere in a model, and at most places no rule fires. So a rule has to pass a ladder of questions, the
cheap ones first. Each question is asked only if the rule passed the one before. The first four are about the whole model:

1. Is the rule meant for this model? Exporter, opset, ir_version, the framework's own file: `framework.exporter`.
2. Are all operators there that its pattern names? `Rule.wanted`, known without compiling the rule.
3. May it fire, according to the bytes? `forecast`, which checks the pattern and the conditions for each kind of node in a
   census of the bytes. Types, and then ranks, are followed through the model only if a remaining rule needs them. When no rule
   is left, the model is copied, and neither ONNX is imported nor a graph built.
4. Does the graph have what it needs? `requirements`: an inventory of operators, attributes and element types, including those
   that other rules may make. A rule whose needs are not in the inventory is not tried anywhere.

The others are asked at each node that has the operator of the pattern's root, when the node or a fact about it that the rule
used has changed:

5. Can the root match? `engine.compile`: the number of operands, and the operators that make them. The answer is remembered for
   these properties of a node, for all rules of an operator together.
6. Does the pattern match here? `pattern_program`, a fixed list of questions, with a choice if operands may change places or
   the pattern has several ends. It needs facts only if the pattern does (types, constants).
7. Do all uses of `private` tensors lie within the match, and do the conditions hold? `engine.attempt`, by
   `conditions.evaluate`, as they are written. A false condition rejects the rule at once. An unknown condition blocks it, and
   the log says why.

1, 2 and 4 are remembered for models of one kind, so each of thousands of small models asks only new questions. No rung may
reject a rule that a later one would pass: `tests/engine/test_one_meaning.py` compares the forecast with the run on random
rules, `test_pattern_program.py` compares the program with a plain search.
"""
