"""The exporter of a model: from its signature, or from other traces if it has none or another tool has signed over it.

Rules of one exporter must not touch the models of another, so this errs on the side of "unknown". MXNet 1.3 to 1.9 and today's
Paddle sign nothing, but name the graph; ONNX Runtime's quantizer, optimizers and simplifiers put their own name in place of the
exporter's and leave the graph's name alone.

The names are names of frameworks (`mxnet`, `pytorch`, `tensorflow`, `paddle`, `sklearn`, `jax`, `caffe2`), since a rule is
about the meaning in a framework. The converter's own name (`tf2onnx`) is also kept, and rules can require it.

A rule's exporter, its opset and IR range, and its need for source information decide whether the rule is meant for a model at
all. This is the first of the questions that `rewriter.core.matching` lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from rewriter.core.language.header import UNBOUNDED, Bounds, Release, exactly, parse_versions, release
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Skipped
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs

    from rewriter.core.framework.source_info import SourceInfo

# The version of MXNet that exported a model, up to 1.8 or 1.9: MXNet signs nothing, but its versions write different nodes.
#
# 1.9 is another exporter: it gives names to some kinds of nodes only, needs opset 12, and has other helpers. A model that 1.9
# cannot have written is older. Up to 1.8 every node has a name. But tools name nodes, remove names, and insert nodes without
# one, so that a node without a name is no evidence by itself. It counts only if all nodes have and lack names as in 1.9. So a
# tool that names nodes may make a version unknown, but never adds one.

FIRST = (1, 3)
"""The first version that exported."""
REWRITTEN = (1, 9)
"""The first one with the exporter of today."""
_LEAST_OPSET = 12  # of 1.9

_NEVER_NAMED = frozenset(
    [
        "And", "ArgMax", "ArgMin", "AveragePool", "Conv", "ConvTranspose", "Equal", "GlobalMaxPool", "Greater", "Less",
        "LpPool", "MaxPool", "Not", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "Split", "TopK",
    ]
)  # fmt: skip
_ALWAYS_NAMED = frozenset(
    [
        "BatchNormalization", "Ceil", "Clip", "Elu", "Floor", "Gather", "InstanceNormalization", "LRN", "LeakyRelu",
        "LpNormalization", "PRelu", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign",
        "SpaceToDepth", "Sum", "Tanh",
    ]
)  # fmt: skip
_OLD_HELPERS = re.compile(r"(?:reshape|reps)_attr_tensor\d+|transpose\d+_[ab]")


def version_bounds(opsets: Mapping[str, int], naming: Iterable[tuple[str, bool]], names: Iterable[str]) -> Bounds:
    """The versions of MXNet that may have written a graph.

    Args:
        opsets: by domain.
        naming: operators of the nodes, and whether they have a name; each pair is needed only once.
        names: the names of nodes and initializers.
    """
    opset = max((opsets[domain] for domain in ("", "ai.onnx") if domain in opsets), default=_LEAST_OPSET)
    if opset < _LEAST_OPSET or any(map(_OLD_HELPERS.fullmatch, names)):
        return Bounds(FIRST, REWRITTEN)
    return Bounds(least=REWRITTEN if _is_new(naming) else FIRST)


def graph_bounds(graph: gs.Graph) -> Bounds:
    """`version_bounds` of a graph."""
    constants = vars(graph).get("initializers")  # graphsurgeon prints an error for a missing attribute
    if constants is None:
        constants = [tensor for node in graph.nodes for tensor in getattr(node, "inputs", ()) if hasattr(tensor, "values")]
    return version_bounds(
        {opset.domain: opset.version for opset in graph.import_domains or ()},
        ((node.op, bool(node.name)) for node in graph.nodes),
        chain((tensor.name for tensor in constants), (node.name for node in graph.nodes)),
    )


def _is_new(nodes: Iterable[tuple[str, bool]]) -> bool:
    """Whether operators have and lack names as 1.9 has it."""
    found = False
    for operator, named in nodes:
        if operator in (_NEVER_NAMED if named else _ALWAYS_NAMED):
            return False
        found |= not named and operator in _NEVER_NAMED
    return found


# producer_name in lower case -> framework. A producer that is not listed is its own framework.
FRAMEWORKS = {
    "torch": "pytorch",
    "tf2onnx": "tensorflow",
    "keras2onnx": "keras",
    "paddlepaddle": "paddle",
    "paddle2onnx": "paddle",
    "jax2onnx": "jax",
    "skl2onnx": "sklearn",
    "sklearn-onnx": "sklearn",
    "onnx-caffe2": "caffe2",
    "pytorch-caffe2": "caffe2",
    "microsoft cntk": "cntk",
    "onnx-chainer": "chainer",
    "coremltools": "coreml",
    "winmltools": "coreml",
}

# Tools that sign over the exporter; onnxruntime-genai makes its models itself.
_SIGNED_OVER = (
    r"onnx\.(quantize|compose|utils)\S*|onnxruntime(?!-genai)\S*|"
    r"onnx-?sim\S*|onnx-?slim\S*|onnx-?optimizer|onnxconverter[-_]common"
)

# Graph names that only one exporter writes; "main_graph" is too common, also under the name of a tool.
_UNSIGNED = (
    (r"mxnet_converted_model", "mxnet"),
    (r"torch[-_]jit([-_]export)?", "pytorch"),
    (r"PaddlePaddle Graph.*|Model from PaddlePaddle\.?|paddle-onnx", "paddle"),
    (r"tf2onnx.*", "tensorflow"),
    (r"ONNX\([A-Z]\w*\)", "sklearn"),
)

# Operator domains that one exporter writes.
_DOMAINS = {"org.pytorch.aten": "pytorch", "pkg.onnxscript.torch_lib": "pytorch", "pkg.onnxscript.torch_lib.common": "pytorch"}


SOURCE_FILES = {"mxnet": ("MXNet", "symbol file", "-symbol.json")}
"""Exporters that leave information to the framework's own file: the names of framework and file to show, and the file's suffix.
"""

LISTING_EXPORTERS = ("mxnet", "caffe2")
"""These list every weight among the inputs, but not the constants that they add themselves."""


@record(frozen=True, slots=True)
class Exporter:
    """Who wrote a model.

    Attributes:
        name: the framework in lower case, "" if it is unknown.
        version: the version in the signature ("2.13.0+cpu"), "" without a signature.
        tool: the converter that signed ("tf2onnx"), lower case, "" for none.
        evidence: the source of the name: "producer_name", "graph name", "operator domain", or "".
        bounds: the possible versions, also if the version is not written.
    """

    name: str = ""
    version: str = ""
    tool: str = ""
    evidence: str = ""
    bounds: Bounds = UNBOUNDED

    def __str__(self) -> str:
        """ "mxnet 1.9 or later (by its graph name)"."""
        if not self.name:
            return "unknown"
        version, least, below = self.version, self.bounds.least, self.bounds.below
        if not version and least is not None:
            version = _dotted(least) + (" or later" if below is None else f" or later, before {_dotted(below)}")
        return " ".join(part for part in (self.name, version, f"(by its {self.evidence})" if self.evidence else "") if part)


def _dotted(version: Release) -> str:
    return ".".join(map(str, version))


def detect(graph: gs.Graph) -> Exporter:
    """The exporter of a model, by its main graph."""
    return identify(
        graph.producer_name or "",
        graph.producer_version or "",
        graph.name or "",
        (opset.domain for opset in graph.import_domains or ()),
        lambda: graph_bounds(graph),
    )


def identify(
    producer: str, version: str, graph_name: str, domains: Iterable[str], mxnet: Callable[[], Bounds] = lambda: Bounds(FIRST)
) -> Exporter:
    """The exporter of a model, from the model's own fields.

    Args:
        producer, version: producer_name and producer_version.
        graph_name, domains: the name of the main graph, and the operator domains that the model imports.
        mxnet: returns the versions of MXNet that the nodes allow; called only for MXNet's models.
    """
    signed = _signed(producer, version)
    if signed is not None:
        return signed
    for pattern, name in _UNSIGNED:
        if re.fullmatch(pattern, graph_name):
            return Exporter(name, evidence="graph name", bounds=mxnet() if name == "mxnet" else UNBOUNDED)
    for domain in domains:
        if domain in _DOMAINS:
            return Exporter(_DOMAINS[domain], evidence="operator domain")
    return Exporter()


@lru_cache(maxsize=256)
def _signed(producer: str, version: str) -> Exporter | None:
    """The exporter that signed a model; None if the model is not signed, or a tool has signed over it."""
    producer, version = producer.strip().lower(), version.strip()
    if not producer or re.fullmatch(_SIGNED_OVER, producer):
        return None
    known = release(version)
    bounds = UNBOUNDED if known is None else exactly(known)
    return Exporter(FRAMEWORKS.get(producer, producer), version, producer, "producer_name", bounds)


def informed(exporter: Exporter, framework: str, version: str) -> Exporter:
    """The exporter with the version in the framework's own file, if the model is not signed.

    This version overrides names that nodes have or lack. It is ignored if it could not write this model, or any model.
    """
    known = release(version) if version and framework == exporter.name and not exporter.version else None
    if known is None or known < FIRST or (exporter.bounds.below is not None and known >= exporter.bounds.below):
        return exporter
    return replace(exporter, version=version, bounds=exactly(known))


def exporter_of(graph: gs.Graph, source: SourceInfo | None) -> Exporter:
    """The exporter of a model, from the model and the framework's own file."""
    found = detect(graph)
    return found if source is None else informed(found, source.framework, source.version)


def matches(exporter: Exporter, names: Sequence[str], versions: str | None = None) -> bool | str:
    """Whether a rule for these exporters and versions is meant for a model.

    Args:
        exporter: whose model it is.
        names: frameworks or converters, one of which must match; an empty list means any.
        versions: clauses that must all hold, such as ">=1.3,<1.9"; None or "" means any.

    Returns:
        True, or the reason why not, "the exporter is pytorch, not mxnet". An unknown exporter or version is also a reason.

    Raises:
        RewriterError: `versions` cannot be read.
    """
    wanted = [name.lower() for name in names]
    if wanted and not {exporter.name, exporter.tool} - {""} & set(wanted):
        return f"the exporter is {exporter.name or 'unknown'}, not {' or '.join(wanted)}"
    for clause in parse_versions(versions or ""):
        holds = clause.holds(exporter.bounds)
        if holds is None:
            return f"the exporter is {exporter}: whether its version is {clause} is unknown"
        if not holds:
            return f"the exporter is {exporter}, not {clause}"
    return True


@record(frozen=True, slots=True)
class GuardedModel:
    """The facts about a model that rules are checked against before they are tried.

    Attributes:
        ir_version: None if the model has none.
        opsets: versions of ONNX's own operators in the model and its functions.
        has_source: whether the framework's own file is known.
    """

    exporter: Exporter
    ir_version: int | None
    opsets: Collection[int]
    has_source: bool


MOST_SUBJECTS = 256
_known: dict[tuple[object, ...], tuple[RuleSet, tuple[list[Rule], list[Skipped]]]] = {}
"""The results for subjects of the same rules: models of one exporter are alike, and each call selects its rules anew."""


def suited(rules: RuleSet, subject: GuardedModel) -> tuple[list[Rule], list[Skipped]]:
    """The rules that are meant for a model, and why the others are not. The lists are shared. Do not change them."""
    same = tuple(map(id, rules.rules)), tuple(map(id, rules.aside)), rules.by_id
    key = same, subject.exporter, subject.ir_version, frozenset(subject.opsets), subject.has_source
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_SUBJECTS:
            _known.clear()
        known = _known[key] = rules, _suited(rules, subject)  # with the rules, so that no others get their id()
    return known[1]


def _suited(rules: RuleSet, subject: GuardedModel) -> tuple[list[Rule], list[Skipped]]:
    found, skipped = list[Rule](), list[Skipped]()
    for rule in rules.aside:
        why = f"it is meant for {', '.join(rule.targets)}; --target {rule.targets[0]} runs it, or select it by its code"
        skipped.append(Skipped(rule.code, why))
    for rule in rules:
        reason = refusal(rule, subject, by_id=rule.code in rules.by_id)
        if reason is None:
            found.append(rule)
        else:
            skipped.append(Skipped(rule.code, reason))
    return found, skipped


def refusal(rule: Rule, subject: GuardedModel, *, by_id: bool) -> str | None:
    """The reason why the rule is not tried on this model, or None. Selected by its own code, a rule runs on any exporter's
    model.
    """
    if not by_id and rule.exporters:
        meant = matches(subject.exporter, rule.exporters, rule.versions)
        if meant is not True:
            return f"{meant}; select {rule.code} by its code to try it anyway"
    if subject.ir_version and subject.ir_version not in rule.ir:
        return f"the model's ir_version is {subject.ir_version}"
    if subject.opsets and not any(version in rule.opset for version in subject.opsets):
        return f"the model's opset is {_listed(subject.opsets)}"
    if rule.needs_source and not subject.has_source:
        return "it needs the framework's own file (--source)"
    return None


def _listed(versions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(versions)))
