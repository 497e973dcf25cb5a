"""Commands that change models as their user says: they cut, join, edit and convert."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.jobs import OPTIMIZED, all_opened, opened
from rewriter.app.batch.work import LEVELS, STDOUT, is_remote, is_url
from rewriter.app.cli.options import (
    EDITS,
    LONG,
    MODEL,
    PATHS,
    RESULTS,
    RULE_PATHS,
    SELECTION,
    Group,
    Limits,
    OneOf,
    Option,
    command,
    count,
    like,
    limits_of,
    result,
    runtime_choice,
    with_words,
)
from rewriter.app.cli.output import answer, answer_json, check_stdout, model_to_stdout, print_line, print_message, style_of
from rewriter.app.style import Style, clean
from rewriter.core.errors import RewriterError

if TYPE_CHECKING:
    from rewriter.core.language.rules import RuleSet
    from rewriter.workbench.surgery.finish import Checks, Surgery
    from rewriter.workbench.surgery.opened import Opened


@command(
    "optimize",
    "make models smaller and faster",
    PATHS,
    epilog="examples:\n  rewriter optimize net.onnx -o small.onnx\n"
    "  rewriter optimize exported/ --out small/ --level basic --jobs 4\n"
    "  rewriter optimize net.onnx --static image:1,3,224,224 --target tensorrt --verify",
    options=(*SELECTION, "level", with_words("static", what="first fix the shape of an input"), *RESULTS),
)
def optimize(args: argparse.Namespace) -> int:
    """Makes models smaller and faster. Folds constants, merges equal nodes, shares equal weights, fuses operators and removes
    dead code, until no rule applies any more. Repairs do not run; use `fix` for them. Results are checked and recorded as with
    `fix`. Without -o, --out or --in-place the result is NAME.optimized.onnx next to the input. In folders, *.optimized.onnx are
    skipped.
    """
    from rewriter.app.cli.batch import write_results

    if not args.origins["select"].startswith("--"):  # the selection of a configuration is for repairs
        args.select, args.origins["select"] = [LEVELS[args.level]], "--level"
    if not args.origins["tidy"].startswith("--"):
        args.tidy = True
    return write_results("optimize", args, OPTIMIZED)


# From one model to one, by `one_result`.


@command(
    "extract",
    "cut a part out of a model",
    MODEL,
    epilog="examples:\n  rewriter extract net.onnx --to features -o backbone.onnx\n"
    "  rewriter extract net.onnx --from features --to 'scores,boxes' -o head.onnx\n"
    "  rewriter extract net.onnx --to op:Softmax --dry-run",
    options=(Group("the part", ("to", "from", "auto-inputs", "type")), *result()),
)
def extract(args: argparse.Namespace) -> int:
    """Writes the part of a model that computes some tensors: the nodes, with the weights, functions and operator sets that they
    need. The part includes the tensors that bodies of If, Loop and Scan read. New inputs and outputs have the types that the
    model declares or that can be inferred.
    """
    from rewriter.workbench.surgery.extract import extracted

    if not args.to and args.start is None:
        raise RewriterError("name the part with --to, --from or both")
    wanted = args.to, args.start, args.type
    return one_result(args, lambda source, checks: extracted(source, *wanted, auto_inputs=args.auto_inputs, checks=checks))


@command(
    "edit",
    "rename, reshape, add and drop parts of a model",
    MODEL,
    epilog="examples:\n  rewriter edit net.onnx --rename data=images --rename '/^onnx::(.*)/\\1/' -o named.onnx\n"
    "  rewriter edit net.onnx --add-output op:Conv -o all.onnx\n"
    "  rewriter edit net.onnx --shape x:N,3,H,W -o dynamic.onnx\n"
    "  rewriter edit net.onnx --insert-after 'images=Mul(_, 0.0039)' --dtype images=uint8 -o bytes.onnx",
    options=(Group("edits, which may be repeated", (*EDITS.items(), "with-children")), *result()),
    is_abbreviated=False,
    edits=[],
)
def edit(args: argparse.Namespace) -> int:
    """Edits a model. The edits are done in the given order. If one fails, none is done."""
    from rewriter.workbench.surgery.edition import edited

    if not args.edits:
        raise RewriterError("no edit; `rewriter edit --help` lists the edits")
    return one_result(args, lambda source, checks: edited(source, args.edits, with_children=args.with_children, checks=checks))


@command(
    "opset",
    "convert a model to another operator set version, up or down",
    MODEL,
    ("version", Option("the version of ONNX's own operators", "N", type=count)),
    epilog="example: rewriter opset net.onnx 18 -o net18.onnx",
    options=("ir", "restamp", *result()),
)
def opset(args: argparse.Namespace) -> int:
    """Converts a model to another version of ONNX's operators, up or down, with its subgraphs and local functions. If a node
    cannot be converted, the model is rejected, and the message names the node and the reason. The IR version is raised if the
    operators need it.
    """
    from rewriter.workbench.surgery.opset_conversion import reversioned

    return one_result(
        args, lambda source, checks: reversioned(source, args.version, args.ir, restamp=args.restamp, checks=checks)
    )


@command(
    "infer",
    "write types and shapes of inner tensors into a model",
    MODEL,
    epilog="example: rewriter infer net.onnx -o net.typed.onnx",
    options=result(),
)
def infer(args: argparse.Namespace) -> int:
    """Writes the types and shapes of inner tensors into a model, as far as they can be inferred from the inputs. Tensors that
    hold shapes are evaluated. Existing declarations stay. The model may have any size.
    """
    from rewriter.workbench.surgery.quantize_prep import inferred

    return one_result(args, inferred)


@command(
    "quantize-prep",
    "optimize a model and write its types for a quantizer",
    MODEL,
    epilog="example: rewriter quantize-prep net.onnx -o net.prepared.onnx",
    options=result(),
)
def quantize_prep(args: argparse.Namespace) -> int:
    """Prepares a model for quantization, like onnxruntime.quantization.preprocess. Converts older operators to opset 13. Folds
    constants, normalizations and padding into the nodes that are quantized. Writes the types and shapes of inner tensors, named
    dimensions included. No operators of ONNX Runtime are added. A step that fails is an error.
    """
    from rewriter.workbench.surgery.quantize_prep import prepared

    return one_result(args, prepared)


@command(
    "save",
    "move weights into a file next to a model, or into the model",
    MODEL,
    epilog="example: rewriter save net.onnx --external -o net.external.onnx",
    options=(OneOf(("external", "inline"), is_required=True), "location", "threshold", *result(stamp=False)),
)
def save(args: argparse.Namespace) -> int:
    """Writes a model with its weights in one file next to it (--external), or in the model file (--inline). The operating
    system copies the bytes; they are not loaded. In a data file, each weight begins at a multiple of 4096.
    """
    from rewriter.workbench.surgery.data_files import LEAST
    from rewriter.workbench.surgery.moved_weights import apart, inside

    if args.inline:
        return one_result(args, inside)
    least = LEAST if args.threshold is None else args.threshold
    return one_result(args, lambda source, checks: apart(source, least=least, location=args.location, checks=checks))


@command(
    "convert",
    "convert a model to another floating-point type, or to another image layout",
    MODEL,
    epilog="examples:\n  rewriter convert net.onnx --dtype float16 -o half.onnx\n"
    "  rewriter convert net.onnx --dtype float16 --keep op:Softmax --keep a..b --io convert -o half.onnx\n"
    "  rewriter convert net.onnx --layout nhwc -o last.onnx",
    options=(OneOf(("dtype", "layout"), is_required=True), "keep", "io", "ports", *result()),
)
def convert(args: argparse.Namespace) -> int:
    """With --dtype: converts a model to another floating-point type, weights and bodies included. Nodes whose operators lack
    the type compute as before. As few casts as possible are inserted. Weights that lose values are named. With --layout: makes
    inputs and outputs of four dimensions channels-last or channels-first. A Transpose is inserted at each of them, and removed
    if the model undoes it. ONNX's operators inside the model keep their layout.
    """
    from rewriter.workbench.surgery.float_type import in_type
    from rewriter.workbench.surgery.port_layout import in_layout

    if args.layout:
        return one_result(args, lambda source, checks: in_layout(source, args.layout, args.ports, checks))
    return one_result(args, lambda source, checks: in_type(source, args.dtype, args.keep, args.io, checks))


@command(
    "reduce",
    "make the smallest model that still shows a problem",
    MODEL,
    epilog="examples:\n  rewriter reduce net.onnx --keep 'refused: incorrect size' -o small.onnx\n"
    "  rewriter reduce net.onnx --keep 'rule: PT030' -o small.onnx\n"
    "  rewriter reduce net.onnx -o without-weights.onnx",
    options=(
        like(
            "keep",
            metavar="WHAT",
            help='"refused: TEXT": a checker or ONNX Runtime rejects the model with TEXT when it checks, loads or runs it; '
            '"rule: CODE": the rule fires. May be repeated',
            needs=None,
        ),
        *RULE_PATHS,
        like("source", default="auto", help="the framework's own file, `none`, or `auto` (default), as for `fix`"),
        *result(),
    ),
)
def reduce(args: argparse.Namespace) -> int:
    """Removes nodes, outputs, weights and declarations, and shrinks dimensions, as long as the model still shows what --keep
    names. Tools that load the model also load the result. Without --keep all nodes stay. Only weights shrink and texts are
    removed, as long as the same rules fire at the same nodes and the same tools reject the model. Use this to share a model
    without its large weights. Small weights, and the elements that are left of large ones, may keep their values.
    """
    from rewriter.app.cli.settings import load
    from rewriter.trust.source.find import source_of
    from rewriter.workbench.surgery.reduction import reduced

    def smaller(source: Opened, checks: Checks) -> Surgery:
        framework = source_of(source.read(), str(source.file), args.source)[0]
        seconds = args.time_limit or LONG
        return reduced(source, args.keep, load(args.rules), framework=framework, seconds=seconds, checks=checks)

    return one_result(args, smaller)


@command(
    "undo",
    "roll back rewrites of a result",
    ("model", Option("the result", "MODEL")),
    ("firings", Option("number of a rewrite, or code of a rule for all its rewrites", "FIRING", nargs="*", default=())),
    epilog="examples:\n  rewriter fix net.onnx -o fixed.onnx --record full\n  rewriter undo fixed.onnx\n"
    "  rewriter undo fixed.onnx 2 -o without.onnx\n  rewriter undo fixed.onnx PT030 --original net.onnx -o without.onnx",
    options=("original", like("source", help="the framework's own file, if one was used"), *RULE_PATHS, *result()),
)
def undo(args: argparse.Namespace) -> int:
    """Rolls back rewrites of the last run that the record of a result lists. The recorded rules run again without these
    rewrites, on the same input. After `fix --record full` the input is restored from the result; otherwise pass --original.
    Without FIRING the rewrites are listed.
    """
    from rewriter.app.cli.settings import load
    from rewriter.app.report import run_lines
    from rewriter.app.report.document import place_text
    from rewriter.trust.check_record import recorded_firings, undone
    from rewriter.workbench.surgery.finish import Surgery, check_result

    source, *others = all_opened([text for text in (args.model, args.original) if text])
    known = load(args.rules)
    beside = {"original": others[0].file if others else None, "source": args.source and Path(args.source)}
    if args.firings:
        targets(args, [source], [args.output])
    with limited(args):
        if not args.firings:
            found = recorded_firings(source.file, known, **beside)
            return answer(args, run_lines.recorded_firings(source.name, found))
        done = undone(source.file, args.firings, known, **beside, stamp=args.stamp)
        did = [f"undone  {one.number}  {one.rule}  {place_text(one)}" for one in done.gone]
        notes = [f"{one.rule} fires at {place_text(one)} instead" for one in done.new]
        notes += check_result(done.model, lambda: [done.before()], runtime=checks_of(args).runtime != "no")[1]
        return deliver(args, source, Surgery(done.model, did, notes))


# From several models to one, from one to several, and from a model to text.


@command(
    "merge",
    "make one model of several",
    ("models", Option("the models, in the order in which they run", "MODEL", nargs="+")),
    epilog="examples:\n  rewriter merge preprocess.onnx net.onnx --map resized=images -o whole.onnx\n"
    "  rewriter merge left.onnx right.onnx --beside --share image --prefix l_,r_ -o both.onnx",
    options=(
        Group(
            "connections",
            (
                "map",
                "beside",
                "share",
                "prefix",
                (
                    "inputs",
                    Option("the order of the inputs; inputs that are not named come last", "T,...", action="append"),
                ),
                "outputs",
            ),
        ),
        *result(),
    ),
)
def merge(args: argparse.Namespace) -> int:
    """Makes one model of several. An input is connected to the output of an earlier model with the same name, or as --map says.
    If no names agree, the only output of each model becomes the only input of the next. Equal initializers and functions are
    kept once. Inner names that clash are changed. Operator sets and IR versions are aligned if this changes the meaning of no
    node.
    """
    from rewriter.workbench.surgery.merging import Plan, merged

    sources = all_opened(args.models)
    targets(args, sources, [args.output])
    prefixes = args.prefix.split(",") if args.prefix is not None else ()
    plan = Plan(args.map, prefixes, args.share, args.beside, args.inputs, args.outputs)
    with limited(args):
        return deliver(args, sources[0], merged(sources, plan, checks_of(args)))


@command(
    "split",
    "split a model into parts that run one after the other",
    MODEL,
    epilog="examples:\n  rewriter split net.onnx --at features -o 'net.{}.onnx'\n"
    "  rewriter split net.onnx --at 'p3,p4,p5' --at scores --dry-run\n"
    "  rewriter split net.onnx --rule MY001 --rules heads.rules -o 'part{}.onnx'\n"
    "  rewriter split net.onnx --max-size 1G -o 'part{}.onnx'",
    options=(
        Group("cuts", (OneOf(("at", "rule", "every", "max-size"), is_required=True),)),
        like("type", help="the type of a tensor between the parts, if it is unknown"),
        *RULE_PATHS,
        *result("the results; {} is the number of a part, for example part{}.onnx", diff=False),
    ),
)
def split(args: argparse.Namespace) -> int:
    """Splits a model into parts that run one after the other. A tensor that a later part reads becomes an output of the part
    that computes it, and an input of the part that reads it. Each part has the constants that it reads.
    """
    from shlex import join

    from rewriter.app.report.printout import Printout
    from rewriter.workbench.surgery import split as cut

    if is_remote(args.output):
        raise RewriterError("a split writes several files; -o names them, as part{}.onnx")
    source = opened(args.model)
    targets(args, [source], [] if args.output is None else [str(cut.files_of(args.output, 1)[0])])
    with limited(args):
        cuts = cut.Cuts(args.at or (), every=args.every, max_size=args.max_size)
        done = cut.split(source, cuts, args.type, checks_of(args), _rules_of_cuts(args))
        files = []
        if not args.dry_run:
            places = cut.files_of(args.output, len(done.parts))
            targets(args, [source], list(map(str, places)))
            files = list(map(str, cut.write_parts(done.parts, places, force=args.force)))
    found = {"plan": done.plan, "notes": done.notes, "same": done.same, "joined": done.joined}
    did = [*done.plan, *(["the parts run, and return the same values as the whole model"] if done.same else [])]
    did += [f"`rewriter merge` joins them again with {join(done.joined)}"] if done.joined else []
    shown = Printout(
        lambda: {"input": source.name, **found, "output": files},
        lambda style: _lines(source.name, args.output if files else None, did, done.notes, style),
    )
    return answer(args, shown)


def _rules_of_cuts(args: argparse.Namespace) -> RuleSet | None:
    from rewriter.app.cli.settings import codes, load

    if args.rules and not args.rule:
        raise RewriterError("--rules names the rule files; name with --rule the rules that mark the cuts")
    return load(args.rules).select(codes(args.rule), []) if args.rule else None


@command(
    "text",
    "convert a model to text (ONNX's own, JSON, protobuf's), and back",
    ("model", Option("the model, in any of the forms", "MODEL")),
    epilog="examples:\n  rewriter text net.onnx\n  rewriter text net.onnx -o net.onnxtxt\n"
    "  rewriter text net.onnxtxt -o edited.onnx\n  rewriter text net.onnx --as json",
    options=(
        like("output", help="the result; - is standard output (default)"),
        "as",
        "force",
        Limits("the whole command", default="600"),
    ),
)
def text(args: argparse.Namespace) -> int:
    """Converts a model from one form to another. The endings of the files select the forms: .onnx; .onnxtxt, ONNX's own text,
    with weights in FILE.data next to it and parts that have no text in FILE.rest.json; .json; .textproto. Converting back
    returns the same model. Without -o the text is printed, with the SHA-256 of weights.
    """
    from rewriter.workbench.surgery import file_forms as forms

    printed = args.output in (None, STDOUT)
    if not printed and is_remote(args.output):
        raise RewriterError("-o names a file of this machine")
    form = args.form or (forms.TEXT if printed else forms.form_of(Path(args.output)))
    if form is None:
        endings = ", ".join(f".{one}" for one in dict.fromkeys(forms.ENDINGS.values()))
        raise RewriterError(f"the ending of {args.output} does not select a form; use {endings}, or pass --as")
    if printed and form == forms.BINARY:
        raise RewriterError("a model in its binary form is written to a file; name it with -o FILE")
    source = opened(args.model)
    with limited(args):
        model, notes = forms.read_form(source.file)
        if printed:
            sys.stdout.write(forms.shown(model, form).rstrip("\n") + "\n")
        else:
            target = Path(args.output)
            if target.exists() and target.samefile(source.file):
                raise RewriterError(f"{args.output} is the input itself; write the result elsewhere")
            files = forms.write_form(model, target, form, force=args.force)
            print_line(f"{clean(source.name)} -> {', '.join(clean(str(file)) for file in files)}")
    for note in notes:
        print_message(f"note: {note}")
    return 0


# Functions that the commands that cut, join and edit models share: they write results and print notes on them.


@contextmanager
def limited(args: argparse.Namespace) -> Iterator[None]:
    """The limits of a command. Its time is mostly for copying large weights; checks have their usual time.

    Raises:
        RewriterError: the command exceeded a limit.
    """
    from rewriter.core.isolation.budget import SECONDS as OF_CHECKS
    from rewriter.core.isolation.budget import Budget, budgeted, within_limits

    limits = limits_of(args, LONG)
    with within_limits(**limits), budgeted(Budget(min(limits["seconds"], OF_CHECKS), limits["memory"])):
        yield


def checks_of(args: argparse.Namespace) -> Checks:
    """The checks that the options select."""
    from rewriter.workbench.surgery.finish import Checks

    return Checks(runtime=runtime_choice(args.runtime), stamp=args.stamp)  # type: ignore[arg-type]


def targets(args: argparse.Namespace, sources: Sequence[Opened], files: Sequence[str]) -> None:
    """Checks, before any work, that the results can be written.

    Raises:
        RewriterError: a result exists already, or is one of the inputs.
    """
    from rewriter.core.onnxfile.files import check_target

    if args.dry_run:
        return
    if args.output is None:
        raise RewriterError("name the result with -o FILE, or pass --dry-run")
    if args.output == STDOUT:
        check_stdout()
        return
    if is_url(args.output):
        from rewriter.app.batch.remote import exists

        if not args.force and exists(args.output):
            raise RewriterError(f"{args.output} exists; --force overwrites it")
        return
    own = {os.path.realpath(source.path) for source in sources if source.path is not None}
    for file in files:
        if os.path.realpath(file) in own and not args.force:
            raise RewriterError(f"{file} is the input itself; --force overwrites it")
        if check_target(Path(file), force=True) is not None and not args.force:
            raise RewriterError(f"{file} exists; --force overwrites it")


def one_result(args: argparse.Namespace, make: Callable[[Opened, Checks], Surgery]) -> int:
    """Runs a command that makes one model of the model in `args.model`; returns 0."""
    source = opened(args.model)
    targets(args, [source], [args.output])
    with limited(args):
        return deliver(args, source, make(source, checks_of(args)))


def deliver(args: argparse.Namespace, source: Opened, done: Surgery) -> int:
    """Writes one result and prints the changes; returns 0."""
    from rewriter.app.report.comparison_lines import comparison_lines

    differences = []
    if args.diff:
        from rewriter.trust.difference import compare

        before = source.read()
        differences = list(compare(before.sketch(), done.model.sketch(), before.folder, done.model.folder))
    written = _written(args, done)
    if args.format == "json" and args.output != STDOUT:
        found = {"did": done.did, "notes": done.notes, "same": done.same}
        answer_json(args, {"input": source.name, "output": written, **found})
        return 0
    to_stderr = args.output == STDOUT and not args.dry_run
    style = style_of(sys.stderr if to_stderr else sys.stdout)
    did = [*done.did, *(["runs, and computes the same"] if done.same else [])]
    lines = list(_lines(source.name, next(iter(written), None), did, done.notes, style))
    if args.diff:
        lines += comparison_lines(source.name, str(args.output or "the result"), differences, style)
    for line in lines:
        if to_stderr:
            print(line, file=sys.stderr)
        else:
            print_line(line)
    return 0


def _lines(name: str, output: str | None, did: Sequence[str], notes: Sequence[str], style: Style) -> Iterator[str]:
    """The changes of a model, and notes on them; `output` is None in a dry run."""
    where = " (dry run)" if output is None else f" -> {clean(output)}"
    yield f"{style.paint('bold', clean(name))}{where}"
    yield from (f"  {clean(line)}" for line in did)
    yield from (f"  {style.paint('dim', 'note')}: {clean(note)}" for note in notes)


def _written(args: argparse.Namespace, done: Surgery) -> list[str]:
    """The names of the written files, or the URL. A dry run writes to a temporary folder, because some checks need the file."""
    if not (args.dry_run or args.output == STDOUT or is_url(args.output)):
        return [str(path) for path in done.save(Path(args.output), force=args.force)]
    if args.dry_run and done.write is None:
        return []
    from rewriter.app.batch.remote import name_of, upload
    from rewriter.core.onnxfile.files import temporary_folder

    with temporary_folder() as folder:
        path = folder / (name_of(args.output) if is_url(args.output) else "model.onnx")
        done.save(path)
        if args.dry_run:
            return []
        if args.output == STDOUT:
            model_to_stdout(folder)
        else:
            upload(path, args.output, alone=False)
    return [args.output]
