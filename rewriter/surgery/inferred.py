"""`rewriter infer`: types and shapes of inner tensors, written into the model."""

from __future__ import annotations

from rewriter.facts.facts import Facts
from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.graph.values import Variable
from rewriter.onnxfile.tensor_types import TensorType, refine
from rewriter.report.style import counted
from rewriter.surgery.finish import Checks, Surgery, finish
from rewriter.surgery.opened import Opened
from rewriter.surgery.ports import set_type


def inferred(source: Opened, checks: Checks | None = None) -> Surgery:
    """A model in which tensors declare what is known of them; what they declare already stays. Weights are not loaded."""
    model = source.read()
    did = [declare_types(model)[0]]
    return finish(model, [source], "infer", did, [], checks or Checks())


def declare_types(model: Model) -> tuple[str, list[str]]:
    """Has tensors declare what is known of them; what was done, and the names of those of which nothing is known."""
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    known = 0
    unknown: list[str] = []
    changes: list[tuple[Variable, TensorType]] = []
    for scope in index.scopes:
        for node in index.members(scope) if not scope.is_function else ():
            for tensor in node.outputs:
                if not tensor.name or not isinstance(tensor, Variable):
                    continue
                dtype, shape = facts.declared(tensor)
                declared = TensorType(dtype, shape)
                fact = facts.fact(tensor).type
                wanted = fact if fact.other else refine(declared, fact)
                if not wanted.other and wanted.dtype is None:
                    unknown.append(tensor.name)
                elif (wanted.other and tensor.infos) or wanted == declared:
                    known += 1
                else:
                    changes.append((tensor, wanted))
    for tensor, wanted in changes:
        set_type(tensor, wanted)
    told = f"{counted(len(changes), 'tensor')} declared, {known:,} were known, of {len(unknown):,} nothing is known"
    return told, unknown
