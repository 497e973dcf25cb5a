"""Keys under which this program leaves a record in models; what stands under them is about a model and no part of it."""

from __future__ import annotations

HISTORY = "rewriter.history"
"""Of the model's metadata_props: the runs that changed it (`rewriter.provenance.history_record`)."""

RULES = "rewriter.rules"
"""Of a node's metadata_props: the rules that made or changed it, separated by spaces."""
