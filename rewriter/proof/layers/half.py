"""One of the two models: runs parts of it, and finds the nodes that cannot be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.onnxfile import external_data
from rewriter.onnxfile.expansion import TOLD, expands_too_much
from rewriter.proof import onnx_runtime
from rewriter.proof.judges.child import TooSlow
from rewriter.proof.judges.judges import PLAIN, SESSION, NoAnswer, Session
from rewriter.proof.layers.cut import Cutter
from rewriter.proof.layers.result import RefusedNode
from rewriter.proof.models.model_inputs import Feed, declared_inputs
from rewriter.proof.models.model_runs import CannotRun

MOST_BLOCKED = 16
"""Nodes that cannot be run and are named; finding one takes as many runs as its number has binary digits."""


class Half:
    """A model with what it is fed.

    Args:
        model: with its weights, or references to external data.
        folder: that of the model's file, where external data are looked for.
        runtime: "ONNX Runtime" or "onnx.reference".

    Raises:
        RewriterError: external data are missing or lead out of the folder.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path, runtime: str) -> None:
        self.model = model
        self.runtime = runtime
        self.blocked: list[RefusedNode] = []
        self._folder = folder
        self._cutter = Cutter(model)
        self._lost: set[str] = set()
        self._whole: Session | None = None  # the session of the model as a whole
        for tensor in external_data.tensors_of(model):
            if external_data.is_external(tensor):
                with external_data.opened(folder, external_data.reference(tensor).location):
                    pass

    def feed(self, given: Feed) -> Feed:
        """What is given for another model's inputs, as this one's: by name, and what is left by position where types agree.

        Raises:
            RewriterError: an input is not given.
        """
        infos = declared_inputs(self.model)
        spare = [name for name in given if name not in {info.name for info in infos}]
        found = {}
        for info in infos:
            if info.name in given:
                found[info.name] = given[info.name]
                continue
            like = next((name for name in spare if _takes(info, given[name])), None)
            if like is None:
                raise RewriterError(f"input {info.name!r} has no counterpart among {', '.join(map(repr, given)) or 'none'}")
            spare.remove(like)
            found[info.name] = given[like]
        return found

    def outputs(self, feed: Feed) -> dict[str, Any]:
        """The model's own outputs.

        Raises:
            CannotRun: a runtime refuses the model, or fails in it.
        """
        names = [output.name for output in self.model.graph.output]
        return dict(zip(names, self._run(self.model, names, feed), strict=True))

    def release(self) -> None:
        """Gives up the memory of the model as a whole; it is made ready again when it is asked for."""
        self._whole = None

    def values(self, tensors: Sequence[str], feed: Feed) -> dict[str, Any]:
        """Tensors that nodes make, by name.

        Raises:
            CannotRun: the part of the model that makes them is not run.
        """
        return dict(zip(tensors, self._run(self._cutter.computing(tensors), tensors, feed), strict=True))

    def knows(self, tensor: str) -> bool:
        """Whether a tensor can be had, as far as `find_blocked` has found out."""
        return tensor not in self._lost

    def find_blocked(self, feed: Feed, reason: str) -> None:
        """Finds the nodes because of which the model does not run; all that is computed from them is lost.

        Args:
            feed: the inputs.
            reason: why the model as a whole is not run.
        """
        alive = list(range(len(self._cutter.nodes)))
        while alive and len(self.blocked) < MOST_BLOCKED:
            refused = self._trial(alive, feed)
            if refused is None:
                break
            if not self.blocked and self._refused_as_a_whole():
                self._lose(alive)
                break
            number, why = self._first_refused(alive, feed, refused)
            node = self._cutter.nodes[number]
            self.blocked.append(RefusedNode(node.name or next(filter(None, node.output), ""), node.op_type, why))
            gone = self._cutter.behind(number)
            self._lose(gone)
            alive = [number for number in alive if number not in gone]
        if not self.blocked:
            self.blocked.append(RefusedNode("", "", reason))

    def _refused_as_a_whole(self) -> bool:
        """Whether a model with the same versions and nothing in it but an Identity is refused, too."""
        part = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        part.graph.name = "probe"
        part.graph.node.add(op_type="Identity", input=["x"], output=["y"])
        part.graph.input.append(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1]))
        part.graph.output.append(onnx.ValueInfoProto(name="y"))
        try:
            self._run(part, ["y"], {"x": np.zeros(1, np.float32)})
        except CannotRun:
            return True
        return False

    def _lose(self, numbers: Iterable[int]) -> None:
        self._lost.update(name for number in numbers for name in self._cutter.nodes[number].output)

    def _first_refused(self, alive: list[int], feed: Feed, why: str) -> tuple[int, str]:
        """The node with which the nodes before it are refused, by bisection."""
        good, bad = 0, len(alive)
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._trial(alive[:middle], feed)
            if found is None:
                good = middle
            else:
                bad, why = middle, found
        return alive[bad - 1], why

    def _trial(self, numbers: list[int], feed: Feed) -> str | None:
        """Why these nodes are not run together; None when they are."""
        part = self._cutter.first(numbers)
        if part is None:
            return None
        try:
            self._run(part, [part.graph.output[-1].name], feed)  # the runtimes compute the other outputs all the same
        except CannotRun as error:
            return str(error)
        return None

    def _run(self, part: onnx.ModelProto, names: Sequence[str], feed: Feed) -> Sequence[Any]:
        own = {info.name for info in part.graph.input}
        fed = {name: value for name, value in feed.items() if name in own}
        try:
            return self._session(part).run(list(names), fed)
        except TooSlow as error:  # to look for the node that takes so long would take as long again and again
            raise RewriterError(f"{error.told(self.runtime)}, so nothing is compared; --time-limit gives it more") from error
        except NoAnswer as error:
            raise CannotRun(error.told(self.runtime)) from error
        except Exception as error:
            raise CannotRun(onnx_runtime.reason(error)) from error

    def _session(self, part: onnx.ModelProto) -> Session:
        if part is not self.model:
            return self._made_ready(part)
        if self._whole is None:
            self._whole = self._made_ready(part)
        return self._whole

    def _made_ready(self, part: onnx.ModelProto) -> Session:
        if expands_too_much(part):
            raise NoAnswer(f"was not asked, since {TOLD}")
        runtime = PLAIN if self.runtime == SESSION else self.runtime  # an optimization may compute a tensor in another way
        return Session(part.SerializeToString(), self._folder, runtime)


def _takes(info: onnx.ValueInfoProto, value: Any) -> bool:
    """Whether an array fits the declared type and shape of an input."""
    tensor, array = info.type.tensor_type, np.asarray(value)
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        return False
    if array.dtype != dtype:
        return False
    if not tensor.HasField("shape"):
        return True
    dims = [dim.dim_value for dim in tensor.shape.dim]
    return len(dims) == array.ndim and all(dim in (0, size) for dim, size in zip(dims, array.shape, strict=True))
