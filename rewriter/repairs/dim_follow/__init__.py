"""A dimension that was a number gets a name: what else in the graph has to follow.

A batch that was fixed at export stands in many places: in shapes that Reshape is given, in states of recurrent layers, in
constants that were expanded to it. `sized_shapes` infers the shapes of the whole graph for a size of the dimension; `follower`
holds two sizes against each other, so that what depends on it shows itself; `alignment` says where a dimension goes in a
Reshape; `mend` has the repairs, one an operator; and `follow` goes through the graph and refuses where the dimension does not
flow through.
"""
