"""`rewriter quantize-prep`: a model ready for ONNX Runtime's quantizer, as `onnxruntime.quantization.preprocess` makes it.

ONNX Runtime's own command needs sympy, continues when a step failed, and uses a converter that drops local functions.
"""

from __future__ import annotations

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.errors import counted, listed
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model, named_by_training
from rewriter.core.graph.objects import opset_versions
from rewriter.core.graph.tidy import tidy
from rewriter.core.graph.values import Variable
from rewriter.core.onnxfile.tensors import TensorType, refine
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.proof.output_agreement import Bound
from rewriter.workbench.surgery.extract import as_in
from rewriter.workbench.surgery.finish import Checks, Surgery, finish
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.opset_conversion import convert_opset, set_versions
from rewriter.workbench.surgery.ports import set_type

# `rewriter infer`: types and shapes of inner tensors, written into the model.


def inferred(source: Opened, checks: Checks | None = None) -> Surgery:
    """A model in which tensors declare their derived types; existing declarations stay. Weights are not loaded."""
    model = source.read()
    did = [declare_types(model)[0]]
    return finish(model, [source], "infer", did, [], checks)


def declare_types(model: Model) -> tuple[str, list[str]]:
    """Makes tensors declare their derived types; returns what was done, and the names of tensors without known types."""
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
    summary = f"{counted(len(changes), 'tensor')} declared, {known:,} declared before, {len(unknown):,} unknown"
    return summary, unknown


LEAST_OPSET = 13
"""QuantizeLinear with an axis needs this opset, and so does the quantizer for channels."""

RULES = ("BASIC", "OPT001", "OPT029", "OPT045")
"""Rules that keep the output values, and rules that put scales, biases and padding into the nodes that are quantized."""

MARK = ("onnx.quant.pre_process", "onnxruntime.quant")
"""The entry of the metadata by which the quantizer knows that a model is prepared."""

_BOUND = Bound(rtol=1e-3, atol=1e-4)
_SHOWN = 8


def prepared(source: Opened, checks: Checks | None = None) -> Surgery:
    """A model that is optimized, declares types and shapes, and is of a version that the quantizer can write into.

    Raises:
        RewriterError: a node cannot be expressed in that version, or the result is less valid or computes something else.
    """
    model = source.read()
    did: list[str] = []
    before = opset_versions(model.graph).get("", LEAST_OPSET)
    if before < LEAST_OPSET:
        convert_opset(model, LEAST_OPSET)
        set_versions(model, {"": LEAST_OPSET}, max(int(model.graph.ir_version or 0), 7))
        did.append(f"opset  {before} -> {LEAST_OPSET}")
    log = run(model.graph, load_rules().select(RULES), Knowledge(overridable=model.overridable, has_kernel=has_kernel))
    tidy(model.graph, named_by_training(model.training_info))
    counts = ", ".join(f"{count:,} {rule}" for rule, count in log.counts.most_common())
    did += [f"rewritten  {counts}"] if counts else []
    summary, unknown = declare_types(model)
    did.append(summary)
    model.metadata.setdefault(*MARK)
    notes = [f"{counted(len(log.stops), 'rule')} stopped early: {log.stops[0]}"] if log.stops else []
    if unknown:
        notes.append(f"not quantized, because no type is known: {listed(unknown, _SHOWN)}")
    return finish(model, [source], "quantize-prep", did, notes, checks, as_in(source, model, _BOUND))
