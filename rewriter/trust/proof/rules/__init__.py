"""Whether a rule keeps its promise: it is run on many instances of its pattern (`rewriter verify`)."""
