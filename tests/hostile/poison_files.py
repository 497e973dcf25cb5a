"""Files that are no models and are meant to hurt whoever reads them: rules, arrays, plans, configurations, journals, records and
framework's files. Most hold a few kilobytes, and stand for more time or memory than there is.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

MODEL = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] z) { m = Neg(x)  z = Relu(m) }'

RULE = """/// Relu becomes Neg.
rule HX001 relu-to-neg <kind: exact, severity: warning, opset: 7..>
match {{ y = Relu(x) }}
{lines}
rewrite {{ y = Neg(x) }}
test "a Relu" ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] a) => (float[4] b) {{ b = Relu(a) }}
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] a) => (float[4] b) {{ b = Neg(a) }}
~~~
{more}
"""


def write_model(folder: Path) -> Path:
    """A small model that any of the files may be used with."""
    onnx.save(onnx.parser.parse_model(MODEL), folder / "model.onnx")
    return folder / "model.onnx"


def _text(text: str) -> Callable[[Path], None]:
    return lambda path: void(path.write_text(text))


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def void(_: object) -> None:
    """Nothing, of what gives something."""


# --- rules -----------------------------------------------------------------------------------------------------------------


def _rule(lines: str = "", test: str = "") -> Callable[[Path], None]:
    more = f'test "deep" unchanged ~~~\n  <ir_version: 8, opset_import: ["": 13]>\n  g {test}\n~~~' if test else ""
    return _text(RULE.format(lines=lines, more=more))


def _chain(first: str, again: str, count: int) -> str:
    lines = [f"let v{number} = {again.replace('@', f'v{number - 1}')}" for number in range(1, count)]
    return "\n".join([f"let v0 = {first}", *lines])


def _defines(path: Path) -> None:
    lines = ["define d0(x) = rank(x) == 1", *(f"define d{n}(x) = d{n - 1}(x)" for n in range(1, 1990))]
    path.write_text("\n".join([*lines, RULE.format(lines="where d1989(x)", more="")]))


_ALL = "all({0} in range(60000): {1})"
RULES = {
    "concat-doubled": _rule(_chain("ones([4])", "concat(@, @, 0)", 40) + "\nwhere len(v39) > 2"),
    "lists-doubled": _rule(_chain("[1]", "[@, @]", 40) + "\nwhere v39 == v39"),
    "lets-chained": _rule(_chain("1", "@", 2000) + "\nwhere v1999 == 1"),
    "defines-chained": _defines,
    "defines-doubled": lambda path: void(
        path.write_text(
            "define d0(x) = rank(x) == 1\n"
            + "".join(f"define d{n}(x) = d{n - 1}(x) and d{n - 1}(x)\n" for n in range(1, 40))
            + RULE.format(lines="where d39(x)", more="")
        )
    ),
    "items-of-items": _rule("where all a in range(60000): all b in range(60000): a + b >= 0"),
    "types-nested": _rule(test="(" + "seq(" * 100_000 + "float" + ")" * 100_000 + " a) => (float[4] b) { b = Neg(a) }"),
    "branches-nested": _rule(
        test="(float a, bool c) => (float[4] b) { "
        + "b = If(c) <then_branch = t () => (float b) {" * 20_000
        + "b = Neg(a)"
        + "}>" * 20_000
        + " }"
    ),
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

# --- arrays ----------------------------------------------------------------------------------------------------------------


def _npz(shape: tuple[int, ...], zeros: int, *, head: bool = True) -> Callable[[Path], None]:
    """An array that is declared to have this shape, and has so many bytes."""
    return lambda path: void(path.write_bytes(_packed_zeros(shape, zeros, head)))


@lru_cache(maxsize=1)
def _packed_zeros(shape: tuple[int, ...], zeros: int, head: bool) -> bytes:
    header, packed = io.BytesIO(), io.BytesIO()
    if head:
        np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    archive = zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("x.npy", "w", force_zip64=True) as entry:
        entry.write(header.getvalue())
        for start in range(0, zeros, 1 << 24):
            entry.write(bytes(min(1 << 24, zeros - start)))
    return packed.getvalue()


def _pickled(path: Path) -> None:
    np.savez(path, x=np.asarray([{}], dtype=object))


ARRAYS = {
    "bomb": _npz((300 << 20,), 1200 << 20),
    "more-than-there-is": _npz((1 << 40,), 16),
    "no-array": _npz((), 64, head=False),
    "pickled": _pickled,
    "half": lambda path: void((_npz((4,), 16)(path), path.write_bytes(path.read_bytes()[:-9]))),
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

# --- plans and configurations ----------------------------------------------------------------------------------------------


def _plan(**values: object) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        from rewriter.core.graph.model import load

        table: dict[str, Any] = {
            "schema": 1,
            "version": "0",
            "model": "model.onnx",
            "sha256": load(path.parent / "model.onnx").read_digest(),
            "rule-paths": ["shipped"],
            **values,
        }
        lines = [f"{name} = {_toml(value)}" for name, value in table.items()]
        path.write_text("\n".join([*lines, "[rules]", ""]))

    return write


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {json.dumps(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)


def _secret(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """With a file beside it that is no rule file, under its own name and under one that looks like it."""

    def both(path: Path) -> None:
        (path.parent / "secret.txt").write_text("the password is hunter2\n")
        (path.parent / "link.rules").unlink(missing_ok=True)
        (path.parent / "link.rules").symlink_to("secret.txt")
        write(path)

    return both


PLANS = {
    "source-endless": _plan(source={"path": "/dev/zero", "sha256": "x"}),
    "model-endless": _plan(model="/dev/zero"),
    "model-elsewhere": _plan(model="https://example.invalid/model.onnx"),
    "source-elsewhere": _plan(source={"path": "https://example.invalid/model-symbol.json", "sha256": "x"}),
    "rules-of-another-file": _secret(_plan(**{"rule-paths": ["secret.txt"]})),
    "rules-of-a-link": _secret(_plan(**{"rule-paths": ["link.rules"]})),
    "rules-endless": _plan(**{"rule-paths": ["/dev/zero"]}),
    "nested": _text("x = " + "[" * 100_000),
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

SETTINGS = {
    "rules-of-another-file": _secret(_text('rules = ["secret.txt"]\n')),
    "more-of-a-link": _secret(_text('extend = ["link.rules"]\n')),
    "source-endless": _text('source = "/dev/zero"\n'),
    "patterns": _text('[[per-path]]\npath = "' + "*a" * 5000 + '*b"\nsource = "none"\n'),
    "nested": _text("x = " + "[" * 100_000),
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

# --- journals --------------------------------------------------------------------------------------------------------------

HEAD = {"journal": 1, "key": "k", "command": "fix", "options": {}}
ENTRY = {"model": "model.onnx", "key": "k", "verdict": "unchanged", "files": {}, "output": True, "remaining": "", "seconds": 1}


def _journal(**values: object) -> Callable[[Path], None]:
    return _text(f"{json.dumps(HEAD)}\n{json.dumps({**ENTRY, **values})}\n")


JOURNALS = {
    "files": _journal(files={"input": [["a"]]}),
    "verdict": _journal(verdict=["changed"]),
    "word": _journal(verdict="banana"),
    "counts": _journal(counts="x"),
    "rolled-back": _journal(**{"rolled back": [1]}),
    "remaining": _journal(remaining=5),
    "seconds": _journal(seconds=float("nan")),
    "half-a-character": _journal(files={"output": [["\ud800", "x", [1, 2, 3, 4]]]}),
    "nested": _text(f'{json.dumps(HEAD)}\n{{"model":"model.onnx","x":{"[" * 3000}{"]" * 3000}}}\n'),
    "options": _text(json.dumps({**HEAD, "options": [1]}) + "\n"),
    "long": lambda path: void(path.write_bytes(json.dumps(HEAD).encode() + b"\n" + b"[" * (1 << 26))),
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

# --- records in models -----------------------------------------------------------------------------------------------------


def _record(text: str | None = None, **values: object) -> Callable[[Path], None]:
    run = {"version": "0", "input": "x", "rules": {}, "rule_set": "", **values}

    def write(path: Path) -> None:
        model = onnx.load(path.parent / "model.onnx")
        onnx.helper.set_model_props(model, {"rewriter.history": text or json.dumps({"schema": 1, "runs": [run]})})
        onnx.save(model, path)

    return write


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


RECORDS = {
    "way-back-nested": _record(way_back=_packed("[" * 1_000_000)),
    "way-back-unpacked": _record(way_back=_packed(" " * (1 << 28))),
    "way-back-repeated": _record(way_back=_packed("[" + "[0,2]," * 1_000_000 + "[0,2]]")),
    "way-back-of-texts": _record(way_back=_packed('["a",[0,"b"],{}]')),
    "infinite": _record(rules={"MX001": [float("inf"), "x"]}, firings=float("inf")),
    "static": _record(static=[["x", [2**62] * 1000]]),
    "nested": _record("[" * 900_000),
    "many": _record(json.dumps({"schema": 1, "runs": [{"version": "", "input": "", "rules": {}, "rule_set": ""}] * 15_000})),
}

# --- files of frameworks ---------------------------------------------------------------------------------------------------


def _holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


SOURCES = {
    "nested": _text('{"nodes": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "holes": _holes,
    "endless": _link("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
}

ENDINGS = {
    "rules": "HX001_relu-to-neg.rules",
    "arrays": "arrays.npz",
    "plans": "plan.toml",
    "settings": "rewriter.toml",
    "journals": "journal.jsonl",
    "records": "record.onnx",
    "sources": "source.json",
}
POISON_FILES: Mapping[str, Mapping[str, Callable[[Path], None]]] = {
    "rules": RULES,
    "arrays": ARRAYS,
    "plans": PLANS,
    "settings": SETTINGS,
    "journals": JOURNALS,
    "records": RECORDS,
    "sources": SOURCES,
}
"""By kind and by name: writes the file, beside which `write_model` has put a model."""


def write_poison(kind: str, name: str, folder: Path) -> Path:
    """One of the files, in an empty folder of its own with a model."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_model(folder)
    POISON_FILES[kind][name](path := folder / ENDINGS[kind])
    return path
