"""A rule file becomes checked rules: text, syntax tree, checks against the ONNX schema; knows no graph and no terminal."""
