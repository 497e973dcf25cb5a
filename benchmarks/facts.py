"""Facts against what a runtime computes: no element type, rank, length, name, value or constant may be false for any input.

    python benchmarks/facts.py [FOLDER ...] [--variants 8] [--jobs 2] [--seed 0] [--only WORD] [--sample N] [--verbose]

The models are onnx's operator tests, the models inside the onnx wheel, and every SET/NAME/model.onnx below a FOLDER with its
recorded inputs (data.npz, data2.npz, ...). Each is tried as it is and in random variants: dimensions of inputs become unknown,
named, or missing, small inputs become constants, attributes change, declared outputs are dropped or kept, and operator tests
import an older opset. A variant that ONNX Runtime runs (an operator test also in onnx.reference) gives the truth of each tensor
of the main graph, for the recorded input and for others of other lengths and contents; each known fact is compared with it.
A false fact is printed with its model. Exits with 1 when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

from rewriter.core.facts.facts import Facts  # noqa: E402
from rewriter.core.facts.shape_rules import followed  # noqa: E402
from rewriter.core.graph.index import GraphIndex  # noqa: E402
from rewriter.core.graph.model import Model  # noqa: E402

Feed = dict[str, Any]
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
PARTS = ("light", "simple", "pytorch-operator", "pytorch-converted")
SECONDS = 60
"""After which a case is given up: a runtime may hang on a variant."""

MOST_TRIED = 5
"""Feeds that are tried for a variant."""

UNCHECKED = ("saturate",)
"""Flags that ONNX Runtime does not check: with 2 a Cast gives zeros."""

LARGEST_CONSTANT = 64
LARGEST_MODEL = 8 << 20


@dataclass(frozen=True)
class Case:
    """A model with the inputs that were recorded for it."""

    name: str
    model: onnx.ModelProto
    feeds: Sequence[Feed]
    is_test: bool = True


@dataclass
class Tally:
    """What was compared: facts by sort, those that could be known, and those that are false."""

    tensors: int = 0
    variants: int = 0
    runs: int = 0
    known: Counter[str] = field(default_factory=Counter)
    possible: Counter[str] = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.tensors += other.tensors
        self.variants += other.variants
        self.runs += other.runs
        self.known.update(other.known)
        self.possible.update(other.possible)
        self.false += other.false


# --- the models --------------------------------------------------------------------------------------------------------------


def sources(folders: Sequence[Path], only: str) -> list[Any]:
    """Operator tests, and paths of models, whose name contains a word."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = [test for test in collect_testcases(None) if test.model is not None and only in test.name]
    paths = [path for part in PARTS for path in sorted((DATA / part).rglob("*.onnx"))]
    paths += [path for folder in folders for path in sorted(folder.rglob("model.onnx"))]
    return [*tests, *(path for path in paths if only in str(path) and path.stat().st_size <= LARGEST_MODEL)]


def case_of(source: Any) -> Case:
    if isinstance(source, Path):
        return _from_path(source)
    names = [info.name for info in source.model.graph.input]
    feeds = [dict(zip(names, map(_value, inputs), strict=False)) for inputs, _ in source.data_sets or ()]
    return Case(source.name, source.model, feeds[:1])


def _from_path(path: Path) -> Case:
    model = onnx.load(path)
    stored = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in stored]
    feeds = []
    for record in sorted(path.parent.glob("data*.npz")):
        with np.load(record, allow_pickle=True) as found:
            arrays = {name[3:]: found[name] for name in found.files if name.startswith("in_")}
        named = all(info.name in arrays for info in infos)
        values = [arrays[info.name] for info in infos] if named else list(arrays.values())
        feeds.append({info.name: _typed(value, info) for info, value in zip(infos, values, strict=False)})
    for folder in sorted(path.parent.glob("test_data_set_*")):
        files = sorted(folder.glob("input_*.pb"), key=lambda file: int(file.stem.rsplit("_", 1)[1]))
        tensors = [onnx.TensorProto.FromString(file.read_bytes()) for file in files]
        feeds.append({info.name: numpy_helper.to_array(one) for info, one in zip(infos, tensors, strict=False)})
    return Case("/".join(path.parts[-3:-1]), model, feeds or [_drawn(infos)], is_test=False)


def _typed(value: Any, info: onnx.ValueInfoProto) -> Any:
    wanted = info.type.tensor_type.elem_type
    return value.astype(helper.tensor_dtype_to_np_dtype(wanted)) if wanted else value


def _drawn(infos: Sequence[onnx.ValueInfoProto]) -> Feed:
    random = np.random.default_rng(0)
    shapes = {info.name: [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim] for info in infos}
    return {info.name: _typed(random.uniform(0, 1, shapes[info.name]), info) for info in infos}


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return [_value(item) for item in value] if isinstance(value, list) else value


# --- variants ----------------------------------------------------------------------------------------------------------------


def varied(case: Case, feed: Feed, random: Random) -> onnx.ModelProto:
    """The model with other dimensions of its inputs, other attributes, and some inputs as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, share = model.graph, random.choice((0.2, 0.5, 0.9))
    fixed = [info for info in graph.input if case.is_test and _small(feed.get(info.name)) and random.random() < 0.5]
    for info in fixed:
        graph.input.remove(info)
        graph.initializer.append(numpy_helper.from_array(np.asarray(feed[info.name]), info.name))
    stored = {tensor.name for tensor in graph.initializer}
    for info in graph.input:
        if info.name not in stored and info.type.HasField("tensor_type") and isinstance(feed.get(info.name), np.ndarray):
            _loosen(info.type.tensor_type, feed[info.name].shape, share, random)
    if case.is_test:
        _change_node(model, random)
    for info in graph.output:
        if random.random() < 0.5 and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return model


def _small(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size <= LARGEST_CONSTANT and value.dtype.kind in "biuf"


def _loosen(declared: Any, shape: tuple[int, ...], share: float, random: Random) -> None:
    if random.random() < 0.08:
        declared.ClearField("shape")
    for dim, length in zip(declared.shape.dim, shape, strict=False):
        if random.random() < share:
            dim.Clear()
            if random.random() < 0.5:
                dim.dim_param = f"d{length}"


def _change_node(model: onnx.ModelProto, random: Random) -> None:
    """Another opset, and an attribute less or one that is another number."""
    if random.random() < 0.3 and model.opset_import[0].version > 7:
        model.opset_import[0].version = random.randrange(7, model.opset_import[0].version)
    for node in model.graph.node:
        for attribute in list(node.attribute):
            if random.random() < 0.12:
                node.attribute.remove(attribute)
            elif random.random() < 0.12:
                if attribute.type == onnx.AttributeProto.INT and attribute.name not in UNCHECKED:
                    attribute.i += random.choice((-1, 1))
                elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
                    attribute.ints[random.randrange(len(attribute.ints))] += random.choice((-1, 1))


def other_feeds(model: onnx.ModelProto, feed: Feed, random: Random, strict: bool) -> Iterator[Feed]:
    """Feeds with other lengths where the model leaves them open, and other contents: equal lengths stay equal, then not.

    `strict` keeps lengths equal that were: the reference runs what contradicts itself, which means nothing then.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in stored]
    attributes = (number for node in model.graph.node for one in node.attribute for number in (one.i, *one.ints))
    fixed = {length: length for tensor in model.graph.initializer for length in tensor.dims}
    fixed |= {dim.dim_value: dim.dim_value for info in infos for dim in info.type.tensor_type.shape.dim}
    fixed |= {number: number for number in attributes}
    for attempt in range(MOST_TRIED):
        lengths: dict[Any, int] = {**fixed} if strict else {}
        found: Feed = {}
        for info in infos:
            value = feed.get(info.name)
            found[info.name] = value
            if isinstance(value, np.ndarray):
                shape = _resized(info, value, lengths, strict or attempt < 3, random)
                flat = value.reshape(-1)
                if flat.size > 1 and attempt % 2:
                    flat = flat[np.random.default_rng(random.randrange(1 << 30)).permutation(flat.size)]
                empty = not value.size and np.prod(shape)
                found[info.name] = np.zeros(shape, value.dtype) if empty else np.resize(flat, shape)
        yield found


def _resized(
    info: onnx.ValueInfoProto, value: np.ndarray[Any, Any], lengths: dict[Any, int], together: bool, random: Random
) -> list[int]:
    """A shape that the input's declaration allows: what has one name, or had one length, gets one length."""
    declared = info.type.tensor_type
    shape = []
    for axis, length in enumerate(value.shape):
        dim = declared.shape.dim[axis] if declared.HasField("shape") else onnx.TensorShapeProto.Dimension()
        if dim.HasField("dim_value"):
            shape.append(length)
            continue
        key = length if together else dim.dim_param or (info.name, axis)
        if key not in lengths:
            lengths[key] = length + random.choice((1, 2, 3, length, -1 if length > 1 else 1, 0))
        shape.append(lengths[key])
    return shape


def allowed(model: onnx.ModelProto, feed: Feed) -> bool:
    """Whether a feed has the lengths that the inputs declare, the same for each name."""
    lengths: dict[str, int] = {}
    for info in model.graph.input:
        value, declared = feed.get(info.name), info.type.tensor_type
        if isinstance(value, np.ndarray) and declared.HasField("shape"):
            if len(declared.shape.dim) != value.ndim:
                return False
            for dim, length in zip(declared.shape.dim, value.shape, strict=True):
                wanted = lengths.setdefault(dim.dim_param, length) if dim.dim_param else dim.dim_value
                if (dim.dim_param or dim.HasField("dim_value")) and wanted != length:
                    return False
    return True


# --- the truth ---------------------------------------------------------------------------------------------------------------


class CannotRun(Exception):
    """No runtime runs this."""


class Runner:
    """Every tensor of the main graph that a runtime computes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.names = [name for node in model.graph.node for name in node.output if name]
        self.session: Any = None
        self.reference: Any = None
        with contextlib.suppress(Exception):
            self.session = self._session()

    def _session(self) -> Any:
        import onnxruntime

        wide = onnx.ModelProto()
        wide.CopyFrom(self.model)
        listed = {info.name for info in wide.graph.output}
        wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.names if name not in listed)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(wide.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, feed: Feed) -> Mapping[str, Any]:
        """Raises CannotRun."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if self.session is not None:
                wanted = {info.name for info in self.session.get_inputs()}
                with contextlib.suppress(Exception):
                    fed = {name: value for name, value in feed.items() if name in wanted}
                    made = zip(self.session.get_outputs(), self.session.run(None, fed), strict=True)
                    return {**feed, **{info.name: _of_type(value, info.type) for info, value in made}}
                raise CannotRun
            try:
                if self.reference is None:
                    from onnx.reference import ReferenceEvaluator

                    self.reference = ReferenceEvaluator(self.model)
                return {**feed, **self.reference.run(None, feed, intermediate=True)}
            except Exception as error:
                raise CannotRun from error


def _of_type(value: Any, kind: str) -> Any:
    """ONNX Runtime gives floats of 8 bits as bytes."""
    if "float8" not in kind:
        return value
    number = onnx.TensorProto.DataType.Value(kind[len("tensor(") : -1].upper())
    return value.view(helper.tensor_dtype_to_np_dtype(number))


# --- comparing ---------------------------------------------------------------------------------------------------------------


def compare(model: onnx.ModelProto, runs: Sequence[Mapping[str, Any]], tally: Tally) -> list[str]:
    """Counts the facts of a model, and says which are false."""
    graph = Model.from_proto(model)
    index = GraphIndex(graph.graph)
    facts = Facts(index, graph.overridable)
    tensors = {t.name: t for t in graph.graph.inputs}
    tensors |= {t.name: t for node in graph.graph.nodes for t in (*node.inputs, *node.outputs) if t.name}
    wrong = []
    names: list[dict[str, int]] = [{} for _ in runs]
    ops = {name: node.op_type for node in model.graph.node for name in node.output}
    for name, tensor in tensors.items():
        truths = [run[name] for run in runs if isinstance(run.get(name), np.ndarray | np.generic)]
        if len(truths) != len(runs):
            continue
        tally.tensors += 1
        fact = facts.fact(tensor)
        truths = [np.asarray(truth) for truth in truths]
        for sort, place, says in _statements(fact, facts.constant(tensor), truths, tally.possible):
            tally.known[sort] += 1
            for number, truth in enumerate(truths):
                if not _holds(sort, place, says, truth, names[number]):
                    shape = f"{truth.dtype}{list(truth.shape)}"
                    wrong.append(f"{sort} of {name} ({ops.get(name, 'input')}) is {says!r} at {place}, the truth {shape}")
                    break
    return wrong


def _statements(
    fact: Any, constant: Any, truths: Sequence[np.ndarray[Any, Any]], possible: Counter[str]
) -> Iterator[tuple[str, int, Any]]:
    """(sort, place, what is said) for each thing known of a tensor; counts what could be known."""
    dtype, shape = fact.type.dtype, fact.type.shape
    rank = truths[0].ndim
    possible.update({"type": 1, "rank": 1, "length": rank})
    if dtype is not None:
        yield "type", 0, dtype
    if shape is not None:
        yield "rank", 0, len(shape)
        if len(shape) == rank:
            yield from (("length", axis, dim) for axis, dim in enumerate(shape) if dim is not None)
    number = helper.np_dtype_to_tensor_dtype(truths[0].dtype) if truths[0].dtype.kind in "biuf" else None
    if followed(number, truths[0].shape):
        possible["value"] += truths[0].size
    if fact.value is not None:
        items = enumerate(fact.value.items)
        yield from (("value", place, item) for place, item in items if item is not None)
    if fact.mark is not None and constant is not None:
        yield "constant", 0, constant


def _holds(sort: str, place: int, says: Any, truth: np.ndarray[Any, Any], names: dict[str, int]) -> bool:
    if sort == "type":
        kind = truth.dtype
        return bool(says == (8 if kind.kind in "OUST" else helper.np_dtype_to_tensor_dtype(kind)))
    if sort == "rank":
        return bool(says == truth.ndim)
    if sort == "constant":
        same = says.shape == truth.shape
        return bool(same and (truth.dtype.kind not in "biuf" or np.allclose(says, truth, rtol=1e-5, atol=1e-6, equal_nan=True)))
    if sort == "length":
        if place >= truth.ndim:
            return True  # the rank is wrong, which is said already
        real = truth.shape[place]
        return bool(real == (names.setdefault(says, real) if isinstance(says, str) else says))
    if place >= truth.size:
        return False
    item = truth.reshape(-1)[place].item()
    return bool(item == (names.setdefault(says, item) if isinstance(says, str) else says))


def judged(case: Case, seed: str, variants: int) -> Tally:
    """All variants of one case."""
    tally = Tally()
    for number in range(variants + 1):
        random = Random(f"{seed} {case.name} {number}")
        feed = random.choice(list(case.feeds)) if case.feeds else {}
        model = varied(case, feed, random) if number else case.model
        runs: list[Mapping[str, Any]] = []
        runner = Runner(model)
        if runner.session is None and (not case.is_test or _attributes(model) != _attributes(case.model)):
            continue  # nothing but ONNX Runtime tells whether they are right: the reference runs much that is wrong
        for other in [*case.feeds, *other_feeds(model, feed, random, runner.session is None)]:
            if not allowed(model, other):
                continue
            with contextlib.suppress(CannotRun):
                runs.append(runner.run(other))
            if len(runs) >= 2 + len(case.feeds):
                break
        if runs:
            tally.variants += 1
            tally.runs += len(runs)
            wrong = compare(model, runs, tally)
            tally.false += [f"{case.name} variant {number}: {text}" for text in wrong]
    return tally


def _attributes(model: onnx.ModelProto) -> list[Any]:
    return [attribute for node in model.graph.node for attribute in node.attribute]


# --- processes ---------------------------------------------------------------------------------------------------------------


def work(connection: Connection[Any, Any], every: Sequence[Any], start: int, args: argparse.Namespace) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number in range(start, len(every), args.jobs):
        connection.send((number, None))
        signal.alarm(SECONDS)
        try:
            tally = judged(case_of(every[number]), str(args.seed), args.variants)
        except Exception as error:
            connection.send((number, f"{type(error).__name__}: {error}"))
        else:
            connection.send((number, tally))
        signal.alarm(0)
    connection.close()


def watched(every: Sequence[Any], args: argparse.Namespace) -> tuple[Tally, list[str]]:
    """Everything together, and the cases that could not be judged: where a runtime ends its process, the next case goes on."""
    total, lost = Tally(), list[str]()
    context = multiprocessing.get_context("fork")

    def start(at: int) -> tuple[Connection[Any, Any], Any]:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(theirs, every, at, args))
        process.start()
        theirs.close()
        return ours, process

    current = dict(start(number) for number in range(args.jobs))
    at = dict.fromkeys(current, -1)
    while current:
        for connection in list(wait(list(current))):
            try:
                number, result = connection.recv()  # type: ignore[union-attr]
            except EOFError:
                process, last = current.pop(connection), at[connection]  # type: ignore[index, call-overload]
                process.join()
                if process.exitcode:
                    lost.append(f"{_label(every[last])}: the process ended with {process.exitcode}")
                    if last + args.jobs < len(every):
                        more, fresh = start(last + args.jobs)
                        current[more], at[more] = fresh, last + args.jobs
                continue
            at[connection] = number  # type: ignore[index]
            if isinstance(result, str):
                lost.append(f"{_label(every[number])}: {result}")
            elif result is not None:
                total.add(result)
                for text in result.false if args.verbose else ():
                    print(text, flush=True)
    return total, lost


def _label(source: Any) -> str:
    return "/".join(source.parts[-3:]) if isinstance(source, Path) else source.name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="*")
    parser.add_argument("--variants", type=int, default=8, help="random variants of each model")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--sample", type=int, default=0, help="so many models, 0 for all")
    parser.add_argument("--verbose", action="store_true", help="print each false fact, not one of each sort and operator")
    args = parser.parse_args()
    every, started = sources(args.folders, args.only), time.monotonic()
    if args.sample and args.sample < len(every):
        every = Random(args.seed).sample(every, args.sample)
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)  # some nodes of tests write files
        total, lost = watched(every, args)
    kinds: dict[str, list[str]] = {}
    for text in total.false:
        found = re.search(r": (\w+) of .*? \(([^)]*)\)", text)
        kinds.setdefault(" of ".join(found.groups()) if found else text, []).append(text)
    for kind, texts in sorted(kinds.items()):
        print(f"false {kind}: {len(texts)}, such as {texts[0]}")
    for text in lost:
        print(f"not judged {text}")
    for sort, possible in total.possible.items():
        print(f"{sort:8} {total.known[sort]:9,} known of {possible:9,}: {100 * total.known[sort] / max(possible, 1):.2f} %")
    print(f"constant {total.known['constant']:9,} known")
    print(
        f"{len(every):,} models, {total.variants:,} variants, {total.runs:,} runs in {time.monotonic() - started:.0f} s: "
        f"{total.tensors:,} tensors, {total.known.total():,} facts, {len(total.false):,} false; {len(lost)} models not judged"
    )
    return 1 if total.false else 0


if __name__ == "__main__":
    sys.exit(main())
