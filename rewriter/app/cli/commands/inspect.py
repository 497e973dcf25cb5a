"""Commands that show what models are, and how they differ."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.jobs import all_opened, opened
from rewriter.app.batch.work import is_remote, with_names
from rewriter.app.cli.options import (
    AFTER,
    BEFORE,
    CONFIGURATION,
    LONG,
    MODEL,
    RULE_PATHS,
    RULES_AT_WORK,
    Group,
    Limits,
    OneOf,
    Option,
    command,
    file_ending_in,
    like,
    limits_of,
    with_words,
)
from rewriter.app.cli.output import answer, print_message
from rewriter.app.style import Style, clean
from rewriter.core.errors import RewriterError, counted
from rewriter.core.record import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx import ModelProto

    from rewriter.core.graph.model import Model
    from rewriter.trust.consumers.asking import ConsumerSession
    from rewriter.trust.consumers.consumer_verdict import Consumer
    from rewriter.workbench.inspect.viewed_graph import NodeNote
    from rewriter.workbench.surgery.opened import Opened

DRAWN_INPUTS = like("inputs", help="an .npz file with the inputs by their names (default: generated inputs)")
RUNNER = like(
    "ask", metavar="NAME", action=None, default=None, help="a consumer that runs the model, or B of two: mnn, tract, ..."
)
NEW_FILE = like("force", help="overwrite an existing file")


@command(
    "show",
    "summarize a model",
    MODEL,
    epilog="example: rewriter show net.onnx --nodes",
    options=(
        "nodes",
        "modules",
        "stats",
        "depth",
        with_words("static", what="the shape of an input, for --modules and --stats"),
        Limits("the summary", 60),
        "format",
    ),
)
def show(args: argparse.Namespace) -> int:
    """Shows the exporter and how it was recognized, opsets, weights, inputs and outputs, operators, subgraphs, local functions,
    external data and metadata. Weights are counted, not read. For external data only the size is read. --modules adds a table
    with the cost of each module of the framework. --stats also reads the weights.
    """
    from rewriter.app.report.summary_lines import summary, with_stats
    from rewriter.workbench.inspect.summary import summarise

    source = opened(args.model)
    costs = args.stats or args.modules
    nodes = args.nodes and not costs
    found = summary(replace(summarise(source.file, nodes=nodes), path=source.name), nodes=nodes)
    if costs:
        from rewriter.workbench.inspect.model_stats import model_stats

        stats = model_stats(source.read(), args.static, weights=args.stats)
        found = with_stats(found, stats, args.depth, nodes=args.nodes)
    return answer(args, found)


@command(
    "view",
    "write an HTML page that shows a model, or two side by side",
    MODEL,
    ("other", Option("a second model, compared with the first", "B", nargs="?")),
    epilog="examples:\n  rewriter view net.onnx -o net.html\n  rewriter view net.onnx net.fixed.onnx --open",
    options=(
        like("output", help="the page (default: NAME.html next to the model)", type=file_ending_in(".html")),
        NEW_FILE,
        "open",
        *RULES_AT_WORK,
        Limits("the page", 600),
    ),
)
def view(args: argparse.Namespace) -> int:
    """Writes one HTML file that shows a model: folded modules, nodes that you can search and follow, the places where rules
    would fire, and the nodes that rules have changed. With two models it also shows the differences. The file contains
    everything that it needs and makes no request. It has the values of weights with up to eight values.
    """
    from rewriter.app.report.report_page import viewer_page
    from rewriter.app.report.summary_lines import size_text
    from rewriter.core.onnxfile.files import check_target, write_file
    from rewriter.workbench.inspect.model_stats import model_stats
    from rewriter.workbench.inspect.viewed_graph import ON_NODES, notes_of_differences, viewed_model

    if args.output is None and is_remote(args.model):
        raise RewriterError(f"{args.model} is no file of this machine; name the page with -o")
    target = Path(args.output) if args.output else Path(args.model).with_suffix(".html")
    check_target(target, args.force)
    sources = all_opened([text for text in (args.model, args.other) if text is not None], args.source)
    others: list[str] = []
    if args.other is None:
        model, findings = _findings(sources[0], args)
        models, notes = [model], [findings]
    else:
        from rewriter.app.report.comparison_lines import difference_lines
        from rewriter.trust.difference import compare_files

        differences = compare_files(*(source.file for source in sources))
        models, notes = [source.read() for source in sources], list(notes_of_differences(differences))
        others = ["\n".join(difference_lines(one, Style())).strip() for one in differences if one.kind not in ON_NODES]
    stats = [model_stats(model, weights=False) for model in models]
    views = list(map(viewed_model, (source.file for source in sources), stats, notes))
    title = " | ".join(source.file.name for source in sources)
    page = viewer_page(views, title, others).encode("utf-8", "backslashreplace")
    write_file(target, page, force=args.force)
    print_message(f"{clean(str(target))}: {size_text(len(page))}")
    if args.open:
        import webbrowser

        webbrowser.open(target.absolute().as_uri())
    return 0


def _findings(source: Opened, args: argparse.Namespace) -> tuple[Model, list[NodeNote]]:
    """The model, and where rules would fire in it."""
    from rewriter.app.cli.batch import firings_of
    from rewriter.app.report.report_page import before_and_after
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.workbench.inspect.viewed_graph import NodeNote

    firings, model = firings_of(source, args, FiringAudit(snapshots=MAX_PICTURES))
    return model, [
        NodeNote(one.place, one.root, "finding", one.rule, one.title, before_and_after(one.snapshot) if one.snapshot else "")
        for one in firings
    ]


MAX_PICTURES = 8
"""Firings of each rule that are pictured in a page: pictures are large."""

WHOLE = 2000
"""The most nodes of a model that is drawn completely. The help of `picture` names the number."""


@command(
    "picture",
    "draw what a rule does to a model, or a part of a model",
    MODEL,
    epilog="examples:\n  rewriter picture net.onnx --firing 1 -o firing.svg\n"
    "  rewriter picture net.onnx --firing 2 --select MX -o firing.mmd\n"
    "  rewriter picture net.onnx --around conv1 --hops 3 -o conv1.svg",
    options=(
        like("output", required=True, help="the picture: .svg, .dot or .mmd"),
        Group("the part", (OneOf(("firing", "around")),)),
        "hops",
        NEW_FILE,
        *RULES_AT_WORK,
        Limits("the picture", 600),
    ),
)
def picture(args: argparse.Namespace) -> int:
    """Draws a part of a model. --firing draws the nodes around a firing, before and after it; N is its number in a report, as
    `check --report found.csv` writes it. --around draws the nodes around one node. Without either, the whole model is drawn if
    it has at most 2,000 nodes; use `view` for larger models. The ending of the file selects the format: .svg, .dot (Graphviz)
    or .mmd (Mermaid).
    """
    from rewriter.app.cli.batch import firings_of
    from rewriter.app.findings import ENDINGS, picture_of_firing, picture_of_part
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.onnxfile.files import check_target, write_file

    ending = next((ending for ending in ENDINGS if args.output.lower().endswith(ending)), None)
    if ending is None:
        raise RewriterError(f"-o {args.output}: unsupported format; use {', '.join(ENDINGS)}")
    target = Path(args.output)
    check_target(target, args.force)
    source = opened(args.model, args.source)
    if args.firing is None:
        model = source.read()
        model.constant_inputs = args.constant_inputs
        text = picture_of_part(model, source.name, args.around, args.hops or 2, ending, most=WHOLE)
    else:
        firings, _ = firings_of(source, args, FiringAudit(snapshot_of=args.firing), args.firing)
        if len(firings) < args.firing:
            there = f"there {'is' if len(firings) == 1 else 'are'} {counted(len(firings), 'firing')}"
            raise RewriterError(f"{source.name}: there is no firing {args.firing}; {there}; `rewriter check` lists them")
        text = picture_of_firing(firings[args.firing - 1], ending)
    write_file(target, text.encode("utf-8", "backslashreplace"), force=True)
    return 0


@command(
    "diff",
    "show the differences between two models",
    BEFORE,
    AFTER,
    epilog="example: rewriter diff net.onnx net.fixed.onnx",
    options=("format", Limits("the comparison", 600)),
)
def diff(args: argparse.Namespace) -> int:
    """Compares the computation of two models. Names of inner tensors and the order of nodes do not count. A constant may be an
    initializer or a node. Prints the differences in nodes, attributes, operands, constants (with their ranges and the largest
    difference), inputs, outputs, opsets and metadata. The exit code is 1 if there are any.
    """
    from rewriter.app.report.comparison_lines import comparison
    from rewriter.trust.difference import compare_files

    before, after = all_opened([args.before, args.after])
    found = compare_files(before.file, after.file)
    return answer(args, comparison(before.name, after.name, found), code=1 if found else 0)


@command(
    "compare",
    "run two models side by side and find the first tensor that differs",
    BEFORE,
    AFTER,
    epilog="examples:\n  rewriter compare net.onnx net.fixed.onnx --inputs sample.npz --layers\n"
    "  rewriter compare net.onnx net.onnx --ask mnn",
    options=(
        like("inputs", help=".npz file with A's inputs (default: random ones and edge values, always the same)"),
        "layers",
        "rtol",
        "atol",
        "memory",
        RUNNER,
        "consumer-env",
        Limits("the comparison", 60),
        "format",
    ),
)
def compare(args: argparse.Namespace) -> int:
    """Runs two models on the same inputs and compares their outputs. If the outputs differ, or one model does not run, compares
    the tensors in between, in the order of computation. Names the first tensor that differs, or the node that is rejected.
    Tensors are paired by structure, not by names. They may differ by --atol plus --rtol times the largest magnitude of the
    tensor, plus 16 units in the last place of the coarsest type. NaN equals only NaN. The exit code is 1 if something differs.
    With --ask, B runs in another consumer, and A in ONNX Runtime; both may be one file.
    """
    from rewriter.app.report.comparison_lines import layers
    from rewriter.trust.proof.layer_comparison import compare_models

    before, after = all_opened([args.before, args.after])
    consumer = _consumer(args)
    rtol = 1e-4 if consumer is None else consumer.tolerance
    found = compare_models(
        before.file,
        after.file,
        inputs=args.inputs,
        rtol=rtol if args.rtol is None else args.rtol,
        atol=args.atol,
        memory=args.memory,
        layers=args.layers,
        consumer=_ready_in(consumer),
    )
    return answer(args, layers(before.name, after.name, found), code=0 if found.same else 1)


def _consumer(args: argparse.Namespace) -> Consumer | None:
    """The consumer of --ask."""
    from rewriter.app.cli.consumers import installed

    if args.ask is None:
        return None
    return installed(args.ask.lower(), args.consumer_env)


def _ready_in(consumer: Consumer | None) -> tuple[str, Callable[[ModelProto], ConsumerSession]] | None:
    """The name of a consumer, and the function that loads a model in it."""
    if consumer is None:
        return None
    from rewriter.trust.consumers.asking import ConsumerSession

    return consumer.version, lambda model: ConsumerSession(consumer, model)


@command(
    "history",
    "list the rules that changed a model",
    MODEL,
    epilog="example: rewriter history net.fixed.onnx",
    options=("format", Limits("the command", 600)),
)
def history(args: argparse.Namespace) -> int:
    """Prints the record that `fix` leaves in models that it changes. For each run: the rules that fired, with counts and
    digests, and the SHA-256 of the file that was rewritten. Then: the nodes that rules made or changed.
    """
    from rewriter.app.report import run_lines
    from rewriter.core.onnxfile.model_file import read_model_file
    from rewriter.core.onnxfile.tensors import text
    from rewriter.trust import stamp
    from rewriter.trust.check_record import marks

    source = opened(args.model)
    model = read_model_file(source.file).proto
    try:
        runs = stamp.history({text(entry.key): text(entry.value) for entry in model.metadata_props})
    except stamp.Unreadable as error:
        raise RewriterError(f"{source.name}: the record in it cannot be read: {error}") from None
    return answer(args, run_lines.history(source.name, runs, marks(model)))


@command(
    "audit",
    "check a result against its record",
    ("input", Option("the model before", "INPUT")),
    ("output", Option("the model after", "OUTPUT")),
    epilog="example: rewriter audit net.onnx net.fixed.onnx",
    options=(
        like("source", help="the framework's own file, if it is not next to INPUT"),
        *RULE_PATHS,
        CONFIGURATION,
        "format",
        Limits("the audit", 600),
    ),
)
def audit(args: argparse.Namespace) -> int:
    """Repeats on INPUT the rewrites that the record in OUTPUT lists, and compares the bytes. The exit code is 1 if the output
    differs, if it has no record, or if a rule has changed since. Nothing is written.
    """
    from rewriter.app.cli.settings import load
    from rewriter.app.report import run_lines
    from rewriter.trust import check_record

    before, after = all_opened([args.input, args.output])
    source = None if args.source in (None, "auto", "none") else Path(args.source)
    found = check_record.audit(before.file, after.file, load(args.rules), source)
    found.findings = list(map(with_names, found.findings))
    return answer(args, run_lines.audit(before.name, after.name, found), code=0 if found.true else 1)


@command(
    "run",
    "run a model and show or save its outputs",
    MODEL,
    epilog="examples:\n  rewriter run net.onnx\n  rewriter run net.onnx --inputs sample.npz --dump 'op:Conv' -o out.npz",
    options=(
        DRAWN_INPUTS,
        with_words("static", what="the shape of a generated input"),
        like("output", help="an .npz file for inputs and outputs", type=file_ending_in(".npz")),
        "dump",
        RUNNER,
        "consumer-env",
        NEW_FILE,
        Limits("the whole command", default="600"),
        "format",
    ),
)
def run(args: argparse.Namespace) -> int:
    """Runs a model once, in ONNX Runtime on one thread, and shows its outputs. Models up to 256 MiB run with the runtime's
    default optimizations, larger models without optimizations. -o saves inputs and outputs by their names, so that you can pass
    the file as --inputs to this and other commands. Without --inputs, the inputs are generated; they are always the same.
    """
    from shlex import quote

    import numpy as np

    from rewriter.app.report import run_lines
    from rewriter.core.graph.tidy import fix_shapes
    from rewriter.core.isolation.budget import within_limits
    from rewriter.core.onnxfile.files import check_target
    from rewriter.trust.proof.benchmark import Rejected, single_run
    from rewriter.trust.proof.model_inputs import write_arrays
    from rewriter.trust.proof.validity import Candidate
    from rewriter.workbench.surgery.ports import with_outputs

    target = None if args.output is None else Path(args.output)
    if target is not None:
        if is_remote(args.output):
            raise RewriterError("-o names a file of this machine")
        check_target(target, args.force)
    source = opened(args.model)
    with within_limits(**limits_of(args, LONG)):
        model, drawn = source.read(), source.read()
        with_outputs(model, args.dump)
        fix_shapes(drawn.graph, args.static)
        try:
            found = single_run(Candidate(model), args.inputs, Candidate(drawn), _ready_in(_consumer(args)))
        except Rejected as error:
            advice = f"`rewriter check {quote(source.name)}` names the rules that repair it"
            raise RewriterError(f"{source.name}: {error}. {advice}") from error
        if target is not None:
            values = {**found.feed, **found.outputs}
            arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
            write_arrays(target, arrays, force=args.force)
            for name in values.keys() - arrays.keys():
                print_message(f"note: {name!r} is no tensor, and not in {args.output}")
        return answer(args, run_lines.single_run(source.name, found, args.output))


@command(
    "bench",
    "measure the run time of models and of their nodes",
    ("models", Option("the models; the others are compared with the first", "MODEL", nargs="+")),
    epilog="examples:\n  rewriter bench net.onnx --nodes\n  rewriter bench net.onnx small.onnx --threads 1",
    options=(
        DRAWN_INPUTS,
        with_words("static", what="the shape of a generated input"),
        "runs",
        "seconds",
        "warmup",
        "threads",
        "as-it-is",
        like("nodes", help="list every node, as the runtime runs it"),
        Limits("the whole command", default="600"),
        "format",
    ),
)
def bench(args: argparse.Namespace) -> int:
    """Times models in ONNX Runtime on the CPU, after warm-up runs that do not count. Several models run in turns. The
    runtime's profile shows which operators take the time. Models with the same inputs get the same values.
    """
    from rewriter.app.report import run_lines
    from rewriter.core.graph.tidy import fix_shapes
    from rewriter.core.isolation.budget import within_limits
    from rewriter.trust.proof.benchmark import benchmark
    from rewriter.trust.proof.judges import runtime_version
    from rewriter.trust.proof.validity import Candidate

    with within_limits(**limits_of(args, LONG)):
        models = []
        sources = all_opened(args.models)
        for source in sources:
            drawn = source.read()
            fix_shapes(drawn.graph, args.static)
            models.append((source.name, source.file.absolute(), Candidate(source.read()), Candidate(drawn)))
        timings = benchmark(
            models,
            inputs=args.inputs,
            runs=args.runs,
            warmup=args.warmup,
            seconds=args.seconds,
            threads=args.threads,
            optimize=not args.as_it_is,
        )
        return answer(args, run_lines.bench(timings, runtime_version(), nodes=args.nodes))
