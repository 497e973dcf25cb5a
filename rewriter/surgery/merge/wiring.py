"""Which inputs of models are which outputs of models before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.graph.values import elem_type, static_shape
from rewriter.record import field, record

_BETWEEN = (".", ":")


@record(frozen=True, slots=True)
class Port:
    """An input or output of one of the models, by its number."""

    model: int
    tensor: gs.Tensor


@record(slots=True)
class Wiring:
    """How models hang together.

    Attributes:
        wires: for inputs, by id(), the outputs of earlier models that they are, or the inputs that they share.
        read: outputs, by id(), that became inputs.
    """

    wires: dict[int, Port] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)


class Joints:
    """Finds the joints of models.

    Args:
        models: in the order in which they run.
        names: what people call them, besides by their numbers.
    """

    def __init__(self, models: Sequence[Model], names: Sequence[str]) -> None:
        self._names = names
        self._inputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.inputs]
        self._outputs = [Port(i, tensor) for i, model in enumerate(models) for tensor in model.graph.outputs]
        self.found = Wiring()

    def map(self, text: str) -> None:
        """`OUTPUT=INPUT`, each as a name, or with the model before it: `a.out=b.in`. Raises RewriterError."""
        places = [i for i, letter in enumerate(text) if letter == "="]
        choices = [(self._ports(self._outputs, text[:i]), self._ports(self._inputs, text[i + 1 :])) for i in places]
        for given, taken in choices:
            pairs = [(one, other) for one in given for other in taken if one.model < other.model]
            if len(pairs) == 1:
                self._wire(*pairs[0])
                return
            if len(pairs) > 1:
                raise RewriterError(f"--map {text}: this fits {len(pairs)} pairs of models; write it as {self._example()}")
        if not places:
            raise RewriterError(f"--map {text}: is not OUTPUT=INPUT")
        given, taken = choices[0]
        left, right = text[: places[0]], text[places[0] + 1 :]
        if not given:
            raise RewriterError(f"--map {text}: no model has an output {left!r}; there is {_list(self._outputs)}")
        if not taken:
            raise RewriterError(f"--map {text}: no model has an input {right!r}; there is {_list(self._inputs)}")
        raise RewriterError(f"--map {text}: {right!r} is no input of a model after that of {left!r}; give the models in order")

    def by_names(self) -> None:
        """Wires inputs to outputs of the same name, of the last model before that has one."""
        for port in self._inputs:
            if id(port.tensor) in self.found.wires:
                continue
            before = [one for one in self._outputs if one.model < port.model and one.tensor.name == port.tensor.name]
            if before:
                self._wire(before[-1], port)

    def by_position(self) -> bool:
        """Wires each model's only output to the only input of the next; False where there are several."""
        last = max((port.model for port in self._outputs), default=0)
        for model in range(last):
            given = [port for port in self._outputs if port.model == model]
            taken = [port for port in self._inputs if port.model == model + 1]
            if len(given) != 1 or len(taken) != 1:
                return False
            self._wire(given[0], taken[0])
        return True

    def share(self, patterns: Iterable[str]) -> None:
        """Makes one input of those of one name. Raises RewriterError when a pattern fits none, or the types differ."""
        for pattern in patterns:
            shared = False
            first: dict[str, Port] = {}
            for port in self._inputs:
                name = port.tensor.name
                if id(port.tensor) in self.found.wires or not (name == pattern or fnmatchcase(name, pattern)):
                    continue
                if name in first:
                    _check_types(first[name].tensor, port.tensor, "be shared with")
                    self.found.wires[id(port.tensor)] = first[name]
                    shared = True
                first.setdefault(name, port)
            if not shared and not _is_pattern(pattern):
                raise RewriterError(f"--share {pattern}: there are no two inputs of this name")

    def clashes(self) -> None:
        """Raises RewriterError when callers would know two tensors by one name."""
        seen: dict[str, tuple[str, Port]] = {}
        for what, ports in (("input", self._inputs), ("output", self._outputs)):
            for port in ports:
                if id(port.tensor) in self.found.wires or id(port.tensor) in self.found.read:
                    continue
                other = seen.setdefault(port.tensor.name, (what, port))
                if other[1].tensor is port.tensor or other[1].model == port.model:
                    continue
                told = f"{self._names[other[1].model]} has an {other[0]} {port.tensor.name!r}"
                told += f" and {self._names[port.model]} an {what} of this name"
                share = f"--share {port.tensor.name} makes one of them, " if what == other[0] == "input" else ""
                raise RewriterError(f"{told}; {share}--prefix keeps them apart")

    def _wire(self, given: Port, taken: Port) -> None:
        if id(taken.tensor) in self.found.wires:
            raise RewriterError(f"input {taken.tensor.name!r} of {self._names[taken.model]} is mapped twice")
        _check_types(given.tensor, taken.tensor, "be given to")
        self.found.wires[id(taken.tensor)] = given
        self.found.read.add(id(given.tensor))

    def _ports(self, ports: list[Port], text: str) -> list[Port]:
        exact = [port for port in ports if port.tensor.name == text]
        named = [
            port
            for port in ports
            for label in (self._names[port.model], str(port.model + 1))
            for between in _BETWEEN
            if text == f"{label}{between}{port.tensor.name}"
        ]
        return named or exact

    def _example(self) -> str:
        return f"{self._names[0]}.OUTPUT={self._names[-1]}.INPUT"


def _check_types(given: gs.Tensor, taken: gs.Tensor, verb: str) -> None:
    kinds = elem_type(given), elem_type(taken)
    one, other = static_shape(given), static_shape(taken)
    names = f"{given.name!r} cannot {verb} {taken.name!r}"
    if None not in kinds and kinds[0] != kinds[1]:
        raise RewriterError(f"{names}: one is {given.dtype}, the other {taken.dtype}")
    if one is None or other is None:
        return
    fits = len(one) == len(other) and not any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(one, other, strict=True)
    )
    if not fits:
        raise RewriterError(f"{names}: one has the shape {list(one)}, the other {list(other)}")


def _list(ports: list[Port]) -> str:
    return ", ".join(dict.fromkeys(repr(port.tensor.name) for port in ports))


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")
