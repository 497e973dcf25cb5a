"""Cuts real exports at random places and joins them again, with this program and with onnx's own tools.

    python benchmarks/surgery.py FOLDER [--models 100] [--cuts 5] [--seed 1] [--alone]

FOLDER is searched for model.onnx. Of each model, as many random cuts are made: the part before it and the part behind it are
extracted, judged, run one after the other beside the whole, and merged again. `onnx.utils.Extractor` and
`onnx.compose.merge_models` do the same cuts, but with --alone. And all names of each model are changed and changed back. What
came out of it otherwise than it should is named, and then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import compose

from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model, load
from rewriter.trust.difference import compare
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery.edition import edit
from rewriter.workbench.surgery.extract import extract, same_as_whole, upstream
from rewriter.workbench.surgery.finish import check_result
from rewriter.workbench.surgery.merging import Plan, merge
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import reads
from rewriter.workbench.surgery.quantize_prep import declare_types

MOST_BYTES = 1 << 26


@dataclass
class Cut:
    """Inputs and outputs of the part before a cut and of that behind it."""

    crossing: list[str]
    inputs: list[str]
    outputs: list[str]
    early: list[str]
    late: list[str]

    @property
    def given(self) -> list[str]:
        return [*self.crossing, *(name for name in self.early if name not in self.crossing)]


def random_cut(proto: onnx.ModelProto, draw: random.Random) -> Cut | None:
    """A cut behind some nodes; None where it leaves nothing on one side."""
    model = Model.from_proto(proto)
    nodes = list(model.graph.nodes)
    chosen = draw.sample(nodes, min(len(nodes), draw.choice((1, 1, 2, 3))))
    first, _ = upstream(GraphIndex(model.graph), [tensor for node in chosen for tensor in node.outputs], set())
    numbers = set(map(id, first))
    made = {id(tensor) for node in first if node.op != "Constant" for tensor in node.outputs}
    rest = [node for node in nodes if id(node) not in numbers]
    crossing = list(dict.fromkeys(t.name for node in rest for t in reads(node) if id(t) in made and t.name))
    outputs = [tensor.name for tensor in model.graph.outputs]
    late = [tensor.name for tensor in model.graph.outputs if id(tensor) not in made]
    early = [name for name in outputs if name not in late]
    if not crossing or not late:
        return None
    return Cut(crossing, [tensor.name for tensor in model.graph.inputs], outputs, early, late)


def ours(proto: onnx.ModelProto, folder: Path, cut: Cut) -> Iterator[onnx.ModelProto]:
    """The two parts and the whole again, by this program."""
    parts = [Model.from_proto(proto, folder) for _ in range(2)]
    extract(parts[0], cut.given)
    extract(parts[1], cut.late, [*cut.crossing, *cut.inputs])
    protos = [part.to_proto() for part in parts]
    yield from protos
    plan = Plan(share=["*"], inputs=cut.inputs, outputs=cut.outputs)
    yield merge([Model.from_proto(part, folder) for part in protos], plan).model.to_proto()


def theirs(proto: onnx.ModelProto, folder: Path, cut: Cut) -> Iterator[onnx.ModelProto]:
    """The same by `onnx.utils` and `onnx.compose`."""
    whole = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    extractor = onnx.utils.Extractor(whole)
    first = extractor.extract_model(cut.inputs, cut.given)
    second = extractor.extract_model([*cut.crossing, *cut.inputs], cut.late)
    yield first
    yield second
    prefixed = compose.add_prefix(second, "second_")
    merged = compose.merge_models(first, prefixed, io_map=[(name, f"second_{name}") for name in cut.crossing])
    yield merged


def verdict(parts: list[onnx.ModelProto], path: Path, cut: Cut) -> str:
    """What the parts are worth."""
    folder = path.parent
    try:
        candidates = [check_result(Model.from_proto(part, folder), lambda: [load(path)])[0] for part in parts]
    except RewriterError:
        return "refused, the model is broken" if broken(path, cut) else "invalid"
    found = same_as_whole(Opened(path), candidates, [], cut.outputs, MOST_BYTES)
    if not found.ran:
        return "valid, the whole does not run"
    return "other numbers" if found.difference else "same numbers"


def broken(path: Path, cut: Cut) -> bool:
    """Whether a model that judges accept does not run, or is refused once it declares the types that follow, as a part does."""
    whole = Candidate(load(path))
    if not same_as_whole(Opened(path), [whole], [], cut.outputs, MOST_BYTES).ran:
        return True
    model = load(path)
    declare_types(model)
    try:
        check_result(model, lambda: [load(path)])
    except RewriterError:
        return True
    return False


WRONG = ("cut: invalid", "cut: other numbers", "merge: another model", "other bytes", "cut: fails", "merge: refused")
"""Beginnings of verdicts that a cut must not get."""


def run(tool: object, proto: onnx.ModelProto, path: Path, cut: Cut, totals: Counter[str]) -> None:
    """Does one cut with one tool."""
    assert callable(tool)
    made: list[onnx.ModelProto] = []
    try:
        for model in tool(proto, path.parent, cut):
            made.append(model)
    except RewriterError as error:
        totals["refused: a type is not known" if "--type" in str(error) else f"refused: {str(error)[:60]}"] += 1
        return
    except Exception as error:  # the peers raise whatever they meet
        totals["cut: fails" if len(made) < 2 else f"merge: refused ({type(error).__name__})"] += 1
        if len(made) < 2:
            return
    totals[f"cut: {verdict(made[:2], path, cut)}"] += 1
    if len(made) == 3:
        back = not list(compare(proto, made[2], path.parent, path.parent))
        totals["merge: the model again" if back else "merge: another model"] += 1


def renamed_back(path: Path) -> bool:
    """Whether a model has its bytes after all its names were changed and changed back."""
    model = load(path)
    edit(model, [("rename", r"/^(.*)$/there_\1/")])
    again = Model.from_proto(model.to_proto())
    edit(again, [("rename", "/^there_//")])
    return bool(again.to_proto().SerializeToString(deterministic=True) == path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without onnx's own tools")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    files = sorted(args.folder.rglob("model.onnx"))
    draw.shuffle(files)
    totals: dict[str, Counter[str]] = {"rewriter": Counter(), "onnx": Counter(), "rename": Counter()}
    wrong: list[str] = []
    models = cuts = 0
    for path in files:
        if models == args.models:
            break
        whole = load(path)
        try:
            extract(whole, [tensor.name for tensor in whole.graph.outputs])  # without what leads nowhere
        except RewriterError:
            continue
        if len(whole.graph.nodes) < 4:
            continue
        models += 1
        proto = whole.to_proto()
        again = renamed_back(path)
        totals["rename"]["the bytes again" if again else "other bytes"] += 1
        wrong += [] if again else [f"{path}: other bytes after renaming and back"]
        tried = [cut for _ in range(4 * args.cuts) if (cut := random_cut(proto, draw)) is not None][: args.cuts]
        for cut in tried:
            cuts += 1
            before = totals["rewriter"].copy()
            run(ours, proto, path, cut, totals["rewriter"])
            wrong += [
                f"{path}: {what}, cut at {', '.join(cut.crossing)}"
                for what in totals["rewriter"] - before
                if what.startswith(WRONG)
            ]
            if not args.alone:
                run(theirs, proto, path, cut, totals["onnx"])
    print(f"{models} models, {cuts} cuts")
    for tool, found in totals.items():
        if found:
            print(tool)
        for what, count in sorted(found.items()):
            print(f"  {count:5}  {what}")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
