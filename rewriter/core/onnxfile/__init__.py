"""A model as bytes in files: read, cut, written and copied, without the weights that are not needed."""
