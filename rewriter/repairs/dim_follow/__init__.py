"""A dimension that was a number gets a name: what else in the graph has to follow.

A batch that was fixed at export stands in many places: in shapes that Reshape is given, in states of recurrent layers, in
constants that were expanded to it. `follower` infers the shapes of the whole graph for two sizes of the dimension, so that what
depends on it shows itself; `mend` has the repairs, one an operator; and `follow` goes through the graph and refuses where the
dimension does not flow through.
"""
