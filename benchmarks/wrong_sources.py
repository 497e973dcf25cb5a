"""Which symbol files are believed: a model's own, those of the nearest other networks, its own with one attribute changed.

    python benchmarks/wrong_sources.py CORPUS [--only SET,...] [--near SET,...] [--nearest N] [--write DIR] [--verbose]

CORPUS holds SET/NAME/{model.onnx, symbol.json, ...}. In the sets that `--near` names (default: all whose name begins with
"near") the file is that of another network. Three figures for each of the others: own files accepted, which must be all; of
the N nearest other networks of the set, by operators and edges, how many were believed; and of the files with one attribute
changed, how many were, by attribute: those that exporters write must not be. `--write` puts every wrong file that was
believed into DIR beside a copy of its model and of all that lies beside it, so that what a repair then does can be scored.
Exits with 1 when an own file was rejected.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewriter.core.framework.source_info import parse_literal
from rewriter.core.graph.model import load
from rewriter.trust.source.acceptance import objection
from rewriter.trust.source.find import parse_source

CHOICES = {
    "Activation.act_type": ("relu", "tanh", "sigmoid"),
    "LeakyReLU.act_type": ("leaky", "elu", "prelu"),
    "Pooling.pool_type": ("max", "avg"),
    "Pooling.pooling_convention": ("valid", "full"),
    "Pad.mode": ("constant", "edge"),
    "norm.ord": ("1", "2"),
}
UNCHANGED = {"no_bias", "num_args"}  # they say how many operands there are, which the file also does otherwise
# What MXNet leaves out where it is the default, and exporters often drop.
ADDED = {
    "BatchNorm": {"fix_gamma": "False"},
    "FullyConnected": {"flatten": "False"},
    "Pooling": {"count_include_pad": "False", "pooling_convention": "full"},
    "mean": {"exclude": "True"},
    "sum": {"exclude": "True"},
    "softmax": {"temperature": "2.0"},
}


@dataclass
class Tally:
    own: int = 0
    rejected: list[str] = field(default_factory=list)
    near: int = 0
    near_believed: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    changed_believed: Counter[str] = field(default_factory=Counter)


@dataclass
class Case:
    folder: Path
    symbol: dict[str, Any]
    shape: Counter[Any]

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"


def read(folder: Path) -> Case:
    symbol = json.loads((folder / "symbol.json").read_text(encoding="utf-8"))
    return Case(folder, symbol, shape_of(symbol))


def shape_of(symbol: dict[str, Any]) -> Counter[Any]:
    """Names, operators and edges of a network, as many as there are."""
    nodes = symbol["nodes"]
    found: Counter[Any] = Counter((node["op"], node["name"]) for node in nodes)
    found.update(node["op"] for node in nodes)
    found.update((nodes[edge[0]]["op"], node["op"], place) for node in nodes for place, edge in enumerate(node["inputs"]))
    return found


def distance(one: Counter[Any], other: Counter[Any]) -> int:
    return ((one - other) + (other - one)).total()


def nearest(case: Case, cases: list[Case], count: int) -> list[Case]:
    """The nearest networks that are not the same to the last attribute."""
    others = [other for other in cases if other.symbol["nodes"] != case.symbol["nodes"]]
    return sorted(others, key=lambda other: (distance(case.shape, other.shape), other.folder.name))[:count]


def attributes_of(node: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = node.get("attrs") or node.get("attr") or node.get("param") or {}
    return found


def changed(symbol: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file with one attribute changed, for every one; "BatchNorm.eps" and the file."""
    for place, node in enumerate(symbol["nodes"]):
        if node["op"] == "null":
            continue
        added = {key: text for key, text in ADDED.get(node["op"], {}).items() if key not in attributes_of(node)}
        altered = {
            key: other for key, text in attributes_of(node).items() if (other := another(node["op"], key, text)) is not None
        }
        for key, text in {**added, **altered}.items():
            copy = json.loads(json.dumps(symbol))
            copy["nodes"][place]["attrs"] = {**attributes_of(node), key: text}
            yield f"{node['op']}.{key}", copy


def another(operator: str, key: str, text: str) -> str | None:
    """Another value of the same kind; None where none is known."""
    if key in UNCHANGED:
        return None
    if choices := CHOICES.get(f"{operator}.{key}"):
        return next((choice for choice in choices if choice != text), None)
    value = parse_literal(text)
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, (int, float)):
        return str(value + 1) if isinstance(value, int) else str(value * 2 + 0.1)
    if isinstance(value, list) and value and isinstance(value[-1], int):
        return str((*value[:-1], value[-1] + 1))
    return None


def objected(case: Case, symbol: dict[str, Any]) -> str:
    return objection(parse_source(json.dumps(symbol), "symbol.json"), load(case.model).graph)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="", help="sets, comma-separated")
    parser.add_argument("--near", default="", help="sets whose files are those of other networks, comma-separated")
    parser.add_argument("--nearest", type=int, default=3, help="how many other networks a model is tried with")
    parser.add_argument("--write", type=Path, help="where wrong files that were believed are put, beside their models")
    parser.add_argument("--verbose", action="store_true", help="say which own files were rejected, and why")
    args = parser.parse_args()
    only, near = set(filter(None, args.only.split(","))), set(filter(None, args.near.split(",")))
    sets: dict[str, list[Case]] = defaultdict(list)
    for path in sorted(args.corpus.glob("*/*/symbol.json")):
        name = path.parent.parent.name
        if (not only or name in only) and (path.parent / "model.onnx").exists():
            sets[name].append(read(path.parent))
    failed = False
    for name, cases in sets.items():
        wrong = name in near if near else name.startswith("near")
        failed |= (tell_near if wrong else tell_own)(name, cases, args)
    return int(failed)


def tell_near(name: str, cases: list[Case], args: argparse.Namespace) -> bool:
    believed = [case for case in cases if not objected(case, case.symbol)]
    print(f"{name:12} files of other networks: {len(believed)} of {len(cases)} believed")
    for case in believed if args.verbose else ():
        print(f"  believed: {case.folder.name}")
    return False


def tell_own(name: str, cases: list[Case], args: argparse.Namespace) -> bool:
    tally = Tally()
    for case in cases:
        tally.own += 1
        if why := objected(case, case.symbol):
            tally.rejected.append(f"{case.folder.name}: {why}")
            continue
        for other in nearest(case, cases, args.nearest):
            tally.near += 1
            if not objected(case, other.symbol):
                tally.near_believed += 1
                keep(args.write, case, other.symbol, f"near-{other.folder.name}")
        for number, (kind, symbol) in enumerate(changed(case.symbol)):
            tally.changed[kind] += 1
            if not objected(case, symbol):
                tally.changed_believed[kind] += 1
                keep(args.write, case, symbol, f"changed-{number}-{kind}")
    believed = tally.changed_believed.total()
    print(
        f"{name:12} own: {tally.own - len(tally.rejected)} of {tally.own} accepted; nearest others: {tally.near_believed} of "
        f"{tally.near} believed; one attribute changed: {believed} of {tally.changed.total()} believed"
    )
    if tally.changed_believed:
        print("  " + ", ".join(f"{kind} {n} of {tally.changed[kind]}" for kind, n in tally.changed_believed.most_common()))
    for line in tally.rejected if args.verbose else ():
        print(f"  rejected: {line}")
    return bool(tally.rejected)


def keep(folder: Path | None, case: Case, symbol: dict[str, Any], kind: str) -> None:
    if folder is not None:
        target = folder / case.folder.parent.name / f"{case.folder.name}-{kind}"
        shutil.copytree(case.folder, target, dirs_exist_ok=True)
        (target / "symbol.json").write_text(json.dumps(symbol), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
