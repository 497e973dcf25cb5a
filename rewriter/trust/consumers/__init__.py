"""Runtimes other than ONNX Runtime: whether they load a model, and whether their outputs equal ONNX Runtime's."""
