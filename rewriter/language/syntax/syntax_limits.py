"""How large a rule file and its parts may be: a stranger's file must end in a message, not in a full memory or a full stack."""

from __future__ import annotations

MAX_FILE_BYTES = 1 << 20
MAX_RULES = 2_000
MAX_RULE_LENGTH = 1 << 16
"""Characters of one rule, test texts not counted."""

MAX_ROWS = 200
MAX_ROWS_LENGTH = 1 << 22
"""Characters of all rules that a table makes."""

MAX_NESTING = 64
"""Brackets within brackets."""

MAX_DEPTH = 100
"""Levels of the syntax tree: long chains of operators nest without brackets."""

MAX_STRING_LENGTH = 1 << 16
MIN_INT = -(1 << 63)
MAX_INT = (1 << 64) - 1
"""ONNX has int64 and uint64."""
