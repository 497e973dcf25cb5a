"""Where a model comes from: the record that rewriting leaves in it, and whether that record is true."""
