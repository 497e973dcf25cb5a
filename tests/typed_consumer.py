"""What a typed program writes that uses the public interface. mypy and pyright read it as they read such a program; see .ci/run."""

from pathlib import Path

import onnx

import rewriter


def repaired(path: Path) -> onnx.ModelProto:
    """`fix` on a path, and what a result has."""
    result: rewriter.Result = rewriter.fix(path, path.with_suffix(".fixed.onnx"), force=True)
    counts: dict[str, int] = dict(result.log.counts)
    refused: str | None = result.refused_after
    if refused or not counts:
        raise rewriter.RewriterError(f"{path}: {refused}")
    return result.proto


def rewritten(path: str) -> list[str]:
    """Rules on a graph, with limits."""
    model: rewriter.Model = rewriter.load(path)
    rules = rewriter.load_rules().select(["DEFAULT", "OPTIMIZE"])
    log: rewriter.Log = rewriter.rewrite(model.graph, rules, limits=rewriter.Limits(firings=1000))
    rewriter.stamp(model, log, rules)
    model.save("out.onnx")
    return [firing.rule for firing in log.firings]


def of_any_form(path: Path, message: onnx.ModelProto, model: rewriter.Model) -> list[str]:
    """Each function, with each kind of model."""
    checked: rewriter.Result = rewriter.check(message, select="PT", ignore=["PT030"], guess=True)
    small: rewriter.Result = rewriter.optimize(model.graph, level="basic", static={"x": (1, 3)}, target="tensorrt")
    same: bool = rewriter.compare(path, model, layers=True).found.same
    texts = [str(rewriter.why("PT030", str(path))), *map(str, rewriter.diff(message, small.model).found)]
    return texts if same else [repr(checked), repr(rewriter.load(message))]


def cut(path: str) -> rewriter.Model:
    """Surgery."""
    parts: list[rewriter.Model] = rewriter.split(path, at=["features"])
    whole = rewriter.merge(*(part.to_proto() for part in parts))
    return rewriter.edit(whole.to_proto(), ("rename", "data=images"))
