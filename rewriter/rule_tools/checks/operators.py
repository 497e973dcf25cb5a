"""Operators, attributes and operand counts against `onnx.defs`, for every opset that the rule claims.

A pattern may be more liberal than a rewrite. Rules of kind `repair` describe models that break the specification, so in their
patterns an attribute or a number of operands is wrong only if no version of the operator ever had it. A rewrite must be correct
in every opset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import pattern_nodes
from rewriter.core.language.diagnostics import suggest
from rewriter.core.language.expand.rule_forms import OPERANDS
from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.header import SAME_NUMBERS
from rewriter.core.language.schema import Operator
from rewriter.rule_tools.checks import expressions as types
from rewriter.rule_tools.checks.context import CheckContext, did_you_mean

# Names of operators without schemas in onnx: operators of old or failed exports, and operators of ONNX Runtime.

EXPERIMENTAL = frozenset(
    {
        "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
        "ParametricSoftplus", "Scale", "ScaledTanh",
    }
)  # fmt: skip
"""Operators that ONNX 1.0 to 1.4 called experimental and then dropped from the registry; old exports still carry them."""

FOREIGN = frozenset(
    {
        "AdjustContrastv2", "Angle", "Bitcast", "BroadcastArgs", "Bucketize", "Cholesky", "Complex", "ComplexAbs", "Cross",
        "Cumprod", "Cumsum", "CumulativeLogsumexp", "DenseBincount", "Diag", "DiagPart", "Digamma", "Dilation2D",
        "Erfc", "Erfinv", "EuclideanNorm", "Expm1", "FFT", "FFT2D", "FakeQuantWithMinMaxArgs",
        "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel", "GatherV2", "HSVToRGB", "HistogramFixedWidth",
        "IFFT", "IRFFT", "Imag", "InTopKV2", "Invert", "IsFinite", "L2Loss", "LeftShift", "Lgamma", "Log1p",
        "LogMatrixDeterminant", "LowerBound", "MatrixBandPart", "MatrixDeterminant", "MatrixDiag", "MatrixDiagPartV3",
        "MatrixDiagV3", "MatrixInverse", "MatrixSetDiag", "MatrixTriangularSolve", "MulNoNan", "Ndtri",
        "PartitionedCall", "RFFT", "RFFT2D", "RGBToHSV", "Real", "ResizeBicubic", "ResizeBilinear",
        "ResizeNearestNeighbor", "ReverseV2", "RightShift", "Rint", "Roll", "ScaleAndTranslate", "ScatterNd",
        "SegmentMean", "SegmentSum", "ShapeN", "SparseTensorDenseMatMul", "StatefulPartitionedCall", "StridedSlice",
        "TFL_BROADCAST_ARGS", "TFL_BUCKETIZE", "TFL_GELU", "TFL_IMAG", "TFL_REAL", "TFL_RELU_0_TO_1", "TFL_RELU_N1_TO_1",
        "TensorListConcatV2", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin", "TensorScatterSub",
        "TruncateMod", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum",
        "UpperBound", "Xdivy", "XlaDynamicUpdateSlice", "Xlog1py", "Xlogy",
    }
)  # fmt: skip
"""TensorFlow's operators that tf2onnx, if it cannot convert them, leaves in the graph as if they were ONNX's own."""

CONTRIB_DOMAIN = "com.microsoft"
CONTRIB_NAMES = (
    "Attention", "AttnLSTM", "BeamSearch", "BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "BiasSplitGelu",
    "BifurcationDetector", "BitmaskBiasDropout", "BitmaskDropout", "BranchwiseRMSNorm", "CDist", "CausalConvWithState",
    "ComplexMul", "ComplexMulConj", "ConvStateReplay", "ConvTransposeWithDynamicPads", "CropAndResize",
    "DecoderAttention", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "DequantizeBFP",
    "DequantizeLinear", "DequantizeWithOrder", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "DynamicSparseAttention",
    "DynamicTimeWarping", "EPContext", "EmbedLayerNormalization", "EngramGate", "ExpandDims", "FastGelu", "FusedConv",
    "FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GatedAdd", "GatedDeltaNet", "GatedDeltaNetStateReplay",
    "GatedRMSNorm", "GatedRelativePositionBias", "GatherBlockQuantized", "GatherND", "GatherPacked", "Gelu",
    "GemmFastGelu", "GemmFloat8", "GemmaRotaryEmbedding", "GreedySearch", "GridSample", "GroupNorm",
    "GroupQueryAttention", "HyperConnectionLowRankMix", "HyperConnectionPostMix", "HyperConnectionPreMix", "Inverse",
    "Irfft", "IsAllFinite", "LinearAttention", "LinearAttentionGate", "LongformerAttention", "MRotaryEmbedding",
    "Mamba2Verify", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4", "MatMulFpQ4",
    "MatMulInteger16", "MatMulIntegerToFloat", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv",
    "MatMulPacked", "MaxpoolWithMask", "MoE", "MoEGroupRouter", "MoEPacked", "MulInteger", "MultiHeadAttention",
    "MurmurHash3", "NGramHashMapping", "NGramRepeatBlock", "NhwcConv", "NhwcFusedConv", "NhwcMaxPool",
    "PackedAttention", "PackedMultiHeadAttention", "PackedSparseAttentionIndexer", "PackedSparseAttentionIndexerMerge",
    "Pad", "PagedAttention", "QAttention", "QEmbedLayerNormalization", "QGemm", "QLinearAdd", "QLinearAveragePool",
    "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean",
    "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QMoE", "QOrderedAttention", "QOrderedGelu",
    "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul", "QuantizeBFP", "QuantizeLinear",
    "QuantizeWithOrder", "QuickGelu", "RMSNormRotary", "Range", "ReduceSumInteger", "RelativePositionBias",
    "RemovePadding", "RestorePadding", "Rfft", "RotaryEmbedding", "RouterGateUpProj", "SampleOp", "Sampling",
    "ScaledSiLU", "SkipGroupNorm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Snpe",
    "SparseAttention", "SparseAttentionIndexer", "SparsePagedAttention", "SparseToDenseMatMul",
    "SpeculativePrefixCommit", "SwiGLU", "Tokenizer", "TorchEmbedding", "TransposeMatMul", "Trilu", "UnfoldTensor",
    "Unique", "VarlenCausalConvWithState", "VarlenNGramHashMapping", "WhisperBeamSearch", "WordConvEmbedding",
)  # fmt: skip
"""Operators of ONNX Runtime 1.32, to suggest one for a misspelled name; later versions have more."""


def check_operator(context: CheckContext, op: ast.Op, in_pattern: bool) -> bool:
    """Reports an operator that ONNX does not know; True if there is a schema to check against."""
    if op.is_any and not in_pattern:
        how = "name it, or edit the matched node in place: n.inputs[0] = x"
        context.report("E101", "a new node has one operator", op.span, "several operators", helps=(how,))
    if op.param or op.is_any:
        return False
    if not schema.is_known_domain(op.domain):
        _foreign(context, op)
        return False
    if schema.history(op.name, op.domain):
        return True
    if (
        in_pattern
        and context.header.kind.name in SAME_NUMBERS
        and not schema.normal(op.domain)
        and op.name in EXPERIMENTAL | FOREIGN
    ):
        return False
    where = f"domain {op.domain}" if schema.normal(op.domain) else "ONNX"
    elsewhere = [domain for domain in schema.domains_of(op.name) if domain != schema.normal(op.domain)]
    helps = did_you_mean(op.name, schema.operators(op.domain))
    if elsewhere:
        helps = tuple(f"write `{schema.qualified(op.name, domain)}`" for domain in elsewhere)
    notes = tuple(f"{domain or 'the default domain'} has an operator of this name" for domain in elsewhere)
    if op.name in EXPERIMENTAL and not schema.normal(op.domain):
        helps, notes = (
            (),
            ("ONNX dropped this experimental operator long ago; patterns of kind `repair`, `exact` or `approx` may name it",),
        )
    elif op.name in FUNCTIONS:
        helps, notes = (f"compute a constant in braces: {{{op.name}(...)}}",), (f"`{op.name}` is a function of expressions",)
    elif not helps and not notes:
        notes = ("operators outside the standard are written with their domain: com.acme.Name",)
        helps = (f'for an operator without a domain: `[n] y = _(x)`, and `where op(n) == "{op.name}"`',) if in_pattern else ()
    context.report("E101", f"{where} has no operator `{op.name}`", op.span, "unknown operator", notes, helps)
    return False


def _foreign(context: CheckContext, op: ast.Op) -> None:
    """Reports names that are one or two letters away from a known one; other domains and operators are allowed."""
    domain = suggest(op.domain, (*schema.domains(), CONTRIB_DOMAIN), 2) if op.domain != CONTRIB_DOMAIN else None
    known = op.domain != CONTRIB_DOMAIN or op.name in CONTRIB_NAMES
    near = (domain and f"{domain}.{op.name}") or (not known and suggest(op.name, CONTRIB_NAMES, 1))
    if not near:
        return
    what = f"there is no domain `{op.domain}` that is known" if domain else f"ONNX Runtime has no operator `{op.name}`"
    near = near if domain else f"{CONTRIB_DOMAIN}.{near}"
    context.report("W101", what, op.span, "misspelled?", helps=(f"did you mean `{near}`?",))


def check_reach(context: CheckContext) -> None:
    """Reports a pattern whose operators never exist together in the declared range."""
    if context.reach:
        return
    for node in pattern_nodes(context.rule.match):
        op = node.ops[0]
        present = [v for v in context.declared if any(schema.exists(o.name, o.domain, v) for o in node.ops)]
        if not present and len(node.ops) == 1:
            story = _operator_story(op)
            message = f"`{op.name}` does not exist in opset {context.phrase(context.declared)}"
            context.report("E110", message, op.span, "the rule can never apply", (story,) if story else ())
            return
    message = "no opset of the rule's range has all operators of the pattern"
    context.report("E110", message, context.rule.match.span, "the rule can never apply")


def check_pattern_node(context: CheckContext, node: ast.NodePattern) -> None:
    """Operators, attribute names and counts of one node of a pattern."""
    for op in node.ops:
        if not check_operator(context, op, in_pattern=True):
            continue
        reach = _where(context, op, context.reach or context.declared)
        reported_opsets: set[int] = set()
        for attr in node.attrs:
            reported_opsets |= _pattern_attribute(context, op, attr, reach)
        _pattern_inputs(context, op, node, [v for v in reach if v not in reported_opsets])
        _pattern_outputs(context, op, node)


def check_build(context: CheckContext, build: ast.Build, opsets: Sequence[int], copied: dict[str, tuple[ast.Op, ...]]) -> None:
    """A new node: it must be correct in each opset of its block.

    `copied` maps the labels of `..n` to the operators whose attributes they may bring.
    """
    if not check_operator(context, build.op, in_pattern=False) or not _exists(context, build.op, opsets):
        return
    inside = _where(context, build.op, opsets)
    reported_opsets: set[int] = set()
    for attr in build.attrs:
        if isinstance(attr, ast.AttrSet):
            reported_opsets |= check_written(context, build.op, attr.name, attr.name_span, inside, attr.value)
    _required(context, build, inside, copied)
    _built_inputs(context, build, [v for v in inside if v not in reported_opsets])
    _built_outputs(context, build, inside)


def check_written(
    context: CheckContext, op: ast.Op, name: str, span: ast.Span, opsets: Sequence[int], value: ast.Expr | None = None
) -> set[int]:
    """An attribute that a rewrite writes exists in all these opsets; in other domains than the default one, in some version.

    Returns the opsets whose operands need no further complaint: the attribute is an input there.
    """
    if not _known_attribute(context, op, name, span):
        return set()
    missing = [v for v in opsets if schema.attribute(op.name, op.domain, v, name) is None]
    if missing and not schema.normal(op.domain):
        return _missing_attribute(context, op, name, span, missing, in_pattern=False, value=value)
    return set()


def check_value(context: CheckContext, op: ast.Op, name: str, value: ast.Expr, actual: str) -> None:
    """The value that is compared with or written to an attribute has a type that the attribute can have."""
    if op.param or not schema.history(op.name, op.domain):
        return
    kinds = {
        attr.kind
        for version in _where(context, op, context.declared)
        if (attr := schema.attribute(op.name, op.domain, version, name)) is not None
    } or schema.attribute_kinds(op.name, op.domain, name)
    if not kinds or types.fits_attribute(actual, kinds):
        return
    what = types.describe("|".join(sorted(kinds)))
    helps: tuple[str, ...] = ()
    if kinds & {"graph", "graphs", "type", "types", "tensors", "sparse tensor", "sparse tensors"}:
        helps = (f"test for presence instead: <{name}>",)
    elif "int" in kinds:
        helps = types.type_in_quotes(value)
    message = f"attribute `{name}` of `{op.name}` is {what}"
    context.report("E106", message, value.span, f"this is {types.describe(actual)}", (), helps)


# --- Attributes ----------------------------------------------------------------------------------------------------------


def _known_attribute(context: CheckContext, op: ast.Op, name: str, span: ast.Span) -> bool:
    if name in schema.all_attributes(op.name, op.domain):
        return True
    names = sorted(schema.attributes(op.name, op.domain, _where(context, op, context.declared)))
    helps = did_you_mean(name, names)
    notes = (f"its attributes: {', '.join(names)}" if names else "it has no attributes",)
    for operator in schema.history(op.name, op.domain):
        position = next((i for i, formal in enumerate(operator.inputs) if formal.name == name), None)
        if position is not None:
            notes, helps = (f"it is input {position}: {operator.signature}",), ()
    context.report("E102", f"`{op.name}` has no attribute `{name}` in any opset", span, "unknown attribute", notes, helps)
    return False


def _pattern_attribute(context: CheckContext, op: ast.Op, attr: ast.AttrPattern, opsets: Sequence[int]) -> set[int]:
    if not _known_attribute(context, op, attr.name, attr.name_span) or attr.mode == "absent" or schema.normal(op.domain):
        return set()
    missing = [v for v in opsets if schema.attribute(op.name, op.domain, v, attr.name) is None]
    if attr.mode == "equals":
        defaulted = [v for v in missing if schema.effective_default(op.name, op.domain, v, attr.name) is not None]
        _never_holds(context, op, attr, defaulted)
        missing = [v for v in missing if v not in defaulted]
    if missing and not context.is_repair:
        value = attr.value if attr.mode == "equals" else None
        return _missing_attribute(context, op, attr.name, attr.name_span, missing, in_pattern=True, value=value)
    return set()


def _never_holds(context: CheckContext, op: ast.Op, attr: ast.AttrPattern, lacking: Sequence[int]) -> None:
    if not lacking or context.is_repair or not isinstance(attr.value, ast.Literal):
        return
    default = schema.effective_default(op.name, op.domain, lacking[0], attr.name)
    if attr.value.value == default:
        return
    limit = context.limit(lacking)
    context.report(
        "W302",
        f"`{attr.name}` of `{op.name}` cannot have this value in opset {context.phrase(lacking)}",
        attr.span,
        "never holds there",
        (f"opsets without the attribute behave as if it were {_show(default)}",),
        (limit,) if limit else (),
    )


def _missing_attribute(
    context: CheckContext,
    op: ast.Op,
    name: str,
    span: ast.Span,
    missing: Sequence[int],
    in_pattern: bool,
    value: ast.Expr | None = None,
) -> set[int]:
    """`value` is the value of the name in a list of attributes, if `~` is allowed in place of `=`."""
    note, is_input = _attribute_story(op, name, missing)
    helps = []
    limit = context.limit(missing)
    both = f"{name}~{context.text[value.span.start : value.span.end]}" if value is not None and is_input else ""
    if is_input:
        helps.append(f"write the {'pattern' if in_pattern else 'node'} for the input form" + (f", or {limit}" if limit else ""))
        if both:
            helps.insert(0, f"write <{both}> for the attribute or the operand, whichever the opset has")
    elif limit:
        helps.append(limit)
    if not in_pattern and limit and not both:
        forms = sorted([[v for v in context.declared if v not in missing], list(missing)])
        blocks = " and ".join(f"`rewrite opset {context.phrase(form)} {{ }}`" for form in forms)
        helps.append(f"or write one block for each form: {blocks}")
    message = f"attribute `{name}` of `{op.name}` does not exist in opset {context.phrase(missing)}"
    context.report("E103", message, span, "not an attribute here", (note,), helps)
    return set(missing) if is_input else set()


def _attribute_story(op: ast.Op, name: str, missing: Sequence[int]) -> tuple[str, bool]:
    """The history of an attribute in the opsets that lack it, and whether it became an input."""
    before: Operator | None = None
    for operator in schema.history(op.name, op.domain):
        if before and name in before.attributes and name not in operator.attributes and operator.since <= max(missing):
            if any(formal.name == OPERANDS.get((op.name, name), name) for formal in operator.inputs):
                return f"since opset {operator.since} it is an input: {operator.signature}", True
            return f"opset {operator.since} removed it; there is {_list(operator.attributes)}", False
        if name in operator.attributes and operator.since > min(missing):
            return f"it was added in opset {operator.since}", False
        before = operator
    return "no opset of this range has it", False


def _required(context: CheckContext, build: ast.Build, opsets: Sequence[int], copied: dict[str, tuple[ast.Op, ...]]) -> None:
    written_names = {attr.name for attr in build.attrs if isinstance(attr, ast.AttrSet)}
    for attr in build.attrs:
        if isinstance(attr, ast.AttrCopy):
            for op in copied.get(attr.label, ()):
                if op.param or not schema.history(op.name, op.domain):
                    return  # it brings its attributes along
                written_names |= schema.all_attributes(op.name, op.domain)
    op, history = build.op, schema.history(build.op.name, build.op.domain)
    every = (found for operator in history for found in operator.attributes.values())
    for name in dict.fromkeys(found.name for found in every if found.required and found.name not in written_names):
        having = ((v, schema.attribute(op.name, op.domain, v, name)) for v in opsets)
        versions = [v for v, found in having if found is not None and found.required]
        if not versions or (schema.normal(op.domain) and len(versions) < len(opsets)):
            continue
        where = "" if len(versions) == len(opsets) else f" in opset {context.phrase(versions)}"
        message = f"`{op.name}` requires the attribute `{name}`{where}"
        context.report("E107", message, op.span, "missing", (), (f"write `{op.name}<{name}=...>(...)`",))


# --- Operand counts ------------------------------------------------------------------------------------------------------


def _pattern_inputs(context: CheckContext, op: ast.Op, node: ast.NodePattern, opsets: Sequence[int]) -> None:
    needed = 0
    singles = [operand for operand in node.inputs if not isinstance(operand, ast.Variadic)]
    for position, operand in enumerate(singles):
        needed = needed if isinstance(operand, ast.Capture) and operand.optional else position + 1
    open_end = node.more_inputs or any(isinstance(operand, ast.Variadic) for operand in node.inputs)
    most = None if open_end else len(node.inputs)

    def possible(operator: Operator) -> bool:
        return (most is None or most >= operator.min_inputs) and needed <= _limit(operator.max_inputs)

    helps = []
    history = schema.history(op.name, op.domain)
    if most is not None and most < max(operator.max_inputs or 0 for operator in history):
        helps.append("end the operands with `...` to allow more of them")
    named = {operand.name for operand in singles if isinstance(operand, ast.Capture)}
    for name in sorted(named & schema.all_attributes(op.name, op.domain)):
        helps.append(f"`{name}` is an attribute, and not an operand: {op.name}<{name}=...>(...)")
    _count(context, op, node.ops_span, opsets, possible, _operands(len(node.inputs)), helps)


def _pattern_outputs(context: CheckContext, op: ast.Op, node: ast.NodePattern) -> None:
    listed = [output for output in node.outputs if not output.variadic]
    most = max(_limit(operator.max_outputs) for operator in schema.history(op.name, op.domain))
    if len(listed) > most:
        message = f"`{op.name}` has at most {_operands(most, 'output')}, the pattern lists {len(listed)}"
        context.report("E104", message, listed[most].span, "too many")


def _built_inputs(context: CheckContext, build: ast.Build, opsets: Sequence[int]) -> None:
    spread = any(isinstance(operand, ast.Ref) and operand.spread for operand in build.inputs)
    fixed = [operand for operand in build.inputs if not (isinstance(operand, ast.Ref) and operand.spread)]
    written = len(fixed)
    while written and isinstance(fixed[written - 1], ast.Absent):
        written -= 1

    def possible(operator: Operator) -> bool:
        return written <= _limit(operator.max_inputs) and (written >= operator.min_inputs or spread)

    _count(context, build.op, build.op.span, opsets, possible, _operands(written), [], strict=True)
    for position, operand in enumerate(build.inputs[:written]):
        if isinstance(operand, ast.Absent) and not spread:
            _absent_input(context, build.op, operand, position, opsets)


def _absent_input(context: CheckContext, op: ast.Op, absent: ast.Absent, position: int, opsets: Sequence[int]) -> None:
    """`_` is allowed for an input that is optional in each opset."""
    wrong: list[int] = []
    signature = ""
    for version in opsets:
        operator = schema.schema(op.name, op.domain, version)
        formal = operator.inputs[position] if operator is not None and position < len(operator.inputs) else None
        if operator is not None and formal is not None and not formal.optional and not formal.variadic:
            wrong.append(version)
            signature = operator.signature
    if wrong and not schema.normal(op.domain):
        limit = context.limit(wrong)
        where = "" if len(wrong) == len(opsets) else f" in opset {context.phrase(wrong)}"
        message = f"input {position} of `{op.name}` cannot be left out{where}"
        notes = (f"there it is {signature}",)
        context.report("E105", message, absent.span, "required", notes, (limit,) if limit else ())


def _built_outputs(context: CheckContext, build: ast.Build, opsets: Sequence[int]) -> None:
    if any(output.variadic for output in build.outputs):
        return
    listed = max(1, len(build.outputs))

    def possible(operator: Operator) -> bool:
        return operator.min_outputs <= listed <= _limit(operator.max_outputs)

    _count(context, build.op, build.op.span, opsets, possible, _operands(listed, "output"), [], strict=True)


def _count(
    context: CheckContext,
    op: ast.Op,
    span: ast.Span,
    opsets: Sequence[int],
    possible: Callable[[Operator], bool],
    what: str,
    helps: list[str],
    strict: bool = False,
) -> None:
    """Reports a number of operands that is impossible always (E104) or in a part of the opsets (E105)."""
    history = schema.history(op.name, op.domain)
    fits = {operator.since: possible(operator) for operator in history}
    if not any(fits.values()):
        forms = dict.fromkeys(operator.signature for operator in history if not operator.deprecated)
        context.report("E104", f"`{op.name}` never has {what}", span, what, [f"it is {' or '.join(forms)}"], helps)
        return
    if all(fits.values()):
        return
    wrong = [v for v in opsets if (operator := schema.schema(op.name, op.domain, v)) is not None and not fits[operator.since]]
    if not wrong or schema.normal(op.domain) or (context.is_repair and not strict):
        return
    operator = schema.schema(op.name, op.domain, wrong[0])
    notes = [f"since opset {operator.since} it is {operator.signature}"] if operator else []
    limit = context.limit(wrong)
    if limit:
        helps = [*helps, limit]
    context.report("E105", f"`{op.name}` cannot have {what} in opset {context.phrase(wrong)}", span, what, notes, helps)


# --- Small things --------------------------------------------------------------------------------------------------------


def _exists(context: CheckContext, op: ast.Op, opsets: Sequence[int]) -> bool:
    if schema.normal(op.domain):
        return True
    missing = [v for v in opsets if not schema.exists(op.name, "", v)]
    if not missing:
        return True
    story = _operator_story(op)
    limit = context.limit(missing)
    message = f"`{op.name}` does not exist in opset {context.phrase(missing)}"
    context.report("E110", message, op.span, "not an operator here", (story,) if story else (), (limit,) if limit else ())
    return len(missing) < len(opsets)


def _operator_story(op: ast.Op) -> str:
    gone = schema.deprecated_since(op.name, op.domain)
    first = schema.versions(op.name, op.domain)
    if gone is not None:
        return f"it is deprecated since opset {gone}" + (f" and was added in opset {first[0]}" if first[0] > 7 else "")
    return f"it was added in opset {first[0]}" if first else ""


def _where(context: CheckContext, op: ast.Op, opsets: Sequence[int]) -> tuple[int, ...]:
    """The versions of the operator's own domain to check: `opset` is about the default domain only."""
    if schema.normal(op.domain):
        opsets = range(1, schema.latest_opset(op.domain) + 1)
    return tuple(v for v in opsets if schema.schema(op.name, op.domain, v) is not None)


def _limit(count: int | None) -> int:
    return 1 << 31 if count is None else count


def _operands(count: int, word: str = "operand") -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _list(names: Iterable[str]) -> str:
    listed = sorted(names)
    return f"only {', '.join(listed)}" if listed else "no attribute left"


def _show(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
