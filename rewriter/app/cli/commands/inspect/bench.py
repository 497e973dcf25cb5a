"""`rewriter bench`: how long models take."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format, add_limits, add_static, count, seconds


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "bench",
        help="measure how long models take, and which nodes take it",
        description="Times models in ONNX Runtime on the processor, in turns where there are several, after some runs that do "
        "not count, and tells from the runtime's profile which operators take the time. Models with the same inputs get the "
        "same values.",
        epilog="examples:\n  rewriter bench net.onnx --nodes\n  rewriter bench net.onnx small.onnx --threads 1",
    )
    parser.add_argument("models", metavar="MODEL", nargs="+", help="the models; the others are compared with the first")
    parser.add_argument("--inputs", metavar="FILE", help=".npz file with the inputs by their names (default: made-up ones)")
    add_static(parser, "the shape of a made-up input")
    parser.add_argument("--runs", metavar="N", type=count, help="so many runs of each model (default: what fits in --seconds)")
    parser.add_argument("--seconds", metavar="S", type=seconds, default=5.0, help="for all timed runs together (default: 5)")
    parser.add_argument("--warmup", metavar="N", type=count, default=5, help="runs of each before that (default: 5)")
    parser.add_argument("--threads", metavar="N", type=count, default=0, help="for one model (default: the runtime decides)")
    parser.add_argument("--as-it-is", action="store_true", help="keep the runtime from optimizing the models")
    parser.add_argument("--nodes", action="store_true", help="list every node, as the runtime runs it")
    add_limits(parser, "the whole command", "600")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Times models; returns 0."""
    import sys

    from rewriter.app.batch.deadline import within_limits
    from rewriter.app.cli.options import limits_of
    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import SECONDS, all_opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.run_lines import bench_lines, bench_object
    from rewriter.core.graph.tidy import fix_shapes
    from rewriter.trust.proof.judges.judges import runtime_version
    from rewriter.trust.proof.models.benchmark import benchmark
    from rewriter.trust.proof.models.validity import Candidate

    with within_limits(**limits_of(args, SECONDS)):
        models, sources = [], all_opened(args.models)
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
        if args.format == "json":
            print(dumps(bench_object(timings, runtime_version())))
        else:
            for line in bench_lines(timings, runtime_version(), nodes=args.nodes, style=style_of(sys.stdout)):
                tell(line, hang=11)
    return 0
