"""Runtimes other than ONNX Runtime: whether they read a model, and whether they compute what ONNX Runtime computes."""
