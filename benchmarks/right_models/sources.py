"""The nearest wrong source file: for a model, the file of another net of the same exporter that resembles its own most."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MANY = 100
UNWRITTEN = {
    "fix_gamma",
    "count_include_pad",
    "pooling_convention",
    "knorm",
    "eps",
    "temperature",
    "use_length",
    "exclude",
    "axis",
    "reverse",
    "target_shape",
    "center_crop",
    "offset",
    "h_w",
    "transpose_a",
    "transpose_b",
    "alpha",
    "multi_output",
    "preserve_shape",
    "flatten",
    "mode",
    "p",
    "momentum",
    "use_global_stats",
    "cudnn_off",
    "workspace",
    "no_bias",
    "layout",
}
"""Arguments that some exporter leaves out of the model. A file that differs only in them from the model's own cannot be told
from it, so it is no wrong file here."""


@dataclass(frozen=True)
class Known:
    """What is compared of a source file: its operators in order, its operators with their names, and all that it says."""

    folder: Path
    operators: tuple[str, ...]
    features: Counter[str]
    digest: str


def read_symbols(folders: Sequence[Path]) -> dict[str, list[Known]]:
    """The source files of all cases, by set; those of sets that hold wrong files on purpose are left out."""
    found: dict[str, list[Known]] = {}
    for folder in folders:
        path = folder / "symbol.json"
        if path.exists() and not folder.parent.name.startswith("near"):
            text = path.read_text()
            found.setdefault(folder.parent.name, []).append(Known(folder, _operators(text), _features(text), _digest(text)))
    return found


def nearest(folder: Path, known: Sequence[Known]) -> str | None:
    """The text of the most similar file that says something else than the model's own."""
    own = next((one for one in known if one.folder == folder), None)
    if own is None:
        return None
    same = [one for one in known if one.operators == own.operators and one.digest != own.digest][:MANY]
    others = same or [one for one in known if one.digest != own.digest][:: max(1, len(known) // MANY)]
    if not others:
        return None
    best = max(others, key=lambda one: (_likeness(own.features, one.features), str(one.folder)))
    return (best.folder / "symbol.json").read_text()


def _operators(text: str) -> tuple[str, ...]:
    return tuple(node["op"] for node in json.loads(text)["nodes"])


def _features(text: str) -> Counter[str]:
    nodes = json.loads(text)["nodes"]
    return Counter([f"{node['op']} {node['name']}" for node in nodes] + [node["op"] for node in nodes])


def _digest(text: str) -> str:
    """What the file says that a model may show, whatever its layout and the version."""
    data = json.loads(text)
    nodes = []
    for node in data["nodes"]:
        attributes = {**node.get("param", {}), **node.get("attr", {}), **node.get("attrs", {})}
        written = {name: text for name, text in attributes.items() if name not in UNWRITTEN}
        nodes.append([node["op"], node["name"], node["inputs"], written])
    return json.dumps([nodes, data.get("heads")], sort_keys=True)


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    return (one & other).total() / max(1, (one | other).total())
