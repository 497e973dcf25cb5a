"""Source information: what the framework's own file says about a node that the exporter threw away."""

from rewriter.source.info import Missing, SourceInfo

__all__ = ["Missing", "SourceInfo"]
