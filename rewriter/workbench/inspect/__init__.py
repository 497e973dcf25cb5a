"""What a model is made of, and how two models differ."""
