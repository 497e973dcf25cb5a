"""A rule file becomes checked rules: text, syntax tree, checks against the ONNX schema; no graph, no terminal, no files but rules."""
