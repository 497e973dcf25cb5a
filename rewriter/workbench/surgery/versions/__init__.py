"""Models in another version of ONNX's operators."""
