"""Whether and how a pattern stands at a place.

Most rules can fire in no place of a given model, and at most places no rule fires. So a rule meets a ladder of questions, the
cheap ones first, each asked only where the one before left the rule standing. The first four are about the model as a whole:

1. Is the rule meant for this model? Exporter, opset, ir_version, the framework's own file: `framework.exporter`.
2. Are all operators there that its pattern names? `Rule.wanted`, known without compiling the rule.
3. May it fire, as far as the bytes tell? `forecast`, which asks the pattern and the conditions about each kind of node in a
   census of the bytes. Types, and then ranks, are followed through the model only where a rule is left that asks for them. When
   no rule is left, the model is copied, and neither ONNX is imported nor a graph built.
4. Does the graph have what it needs? `requirements`: an inventory of operators and element types, to which is added what other
   rules may make. What does not find its own there is not tried anywhere.

The others are asked at each node that has the operator of the pattern's root, when the node or what the rule asked about it
has changed:

5. Does the root look right? `engine.compile`: the number of operands, and who makes them. The answer is remembered by what a
   node shows, for all rules of an operator together.
6. Does the pattern match here? `pattern_program`, a fixed list of questions, with a choice where operands may change places or
   the pattern has several ends. It asks facts only where the pattern does (types, constants).
7. Is nothing outside of the match told to be `private`, and do the conditions hold? `engine.attempt`, by `conditions.evaluate`,
   as they are written. One that is false sends the rule away, whatever the others say; one that is unknown blocks it, and the
   log says why.

1, 2 and 4 are remembered for models of one kind, so that of thousands of small models each asks only what is new. No rung may
send away what a later one would let through: `tests/engine/test_one_meaning.py` holds the forecast against the run on random
rules, `test_pattern_program.py` the program against a plain search.
"""
