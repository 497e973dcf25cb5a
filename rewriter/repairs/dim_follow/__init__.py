"""A dimension that was a number gets a name: changes the parts of the graph that have to follow.

A batch that was fixed at export occurs in many places: in the shapes of Reshapes, in states of recurrent layers, in
constants that were expanded to it. `follower` infers the shapes of the whole graph for two sizes of the dimension, which shows
everything that depends on it. `mend` has the repairs, one an operator. `follow` goes through the graph, and rejects it if the
dimension does not flow through.
"""
