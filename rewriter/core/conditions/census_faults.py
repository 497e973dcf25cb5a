"""Faults of a model as a whole that its census can rule out; the names are those of `language.functions`.

Each answer is "surely none" or "maybe": where a name occurs in several bodies, the ordinary way has to look who sees whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rewriter.core.language.cache.operator_table import Table, begun
from rewriter.core.language.operator_traits import OLD_KERNELS, SETTLED
from rewriter.core.onnxfile.census import OPAQUE, Body, Census, NodeKind

LATE = 16
"""The first element type that operators were given later than the others: bfloat16."""


def no_repeated_nodes(census: Census, table: Table) -> bool:
    """No two nodes of one graph have one name."""
    return all(body.distinct or _are_distinct(body) for body in census.bodies)


def no_repeated_tensors(census: Census, table: Table) -> bool:
    """No name is defined twice, be it in different graphs."""
    return all(_settled(root) or not _repeats(root) for root in _roots(census))


def no_unsorted_nodes(census: Census, table: Table) -> bool:
    """No node reads what is defined further on; asked of names only, so that repeated ones make it doubtful."""
    return all(_settled(root) or (not _repeats(root) and _is_sorted(root)) for root in _roots(census))


def no_missing_imports(census: Census, table: Table) -> bool:
    """Every operator's domain is imported."""
    main = census.imports or {"": 1}
    domains = {kind.domain for kind in census.kinds}
    if domains <= main.keys() and not any(body.imports for body in census.functions.values()):
        return True
    if not all(_imported(census.graph, main)):
        return False
    return all(imported for body in census.functions.values() for imported in _imported(body, body.imports or main))


def no_early_nodes(census: Census, table: Table) -> bool:
    """The opset has every operator of ONNX's own that it will ever have, and no element type stands there that came later."""
    version = (census.imports or {"": 1}).get("")
    if version is None:
        return True
    if census.latest_type >= LATE:
        return False
    for kind in census.kinds:
        to = kind.attrs.get("to")
        if to is not None and (to is OPAQUE or (isinstance(to, int) and to >= LATE)):
            return False
        if not kind.domain and kind.op in table and not begun(table[kind.op], version):
            return False
    return True


def no_old_nodes(census: Census, table: Table) -> bool:
    """The opset is none of the old ones, or ONNX Runtime has its form of every operator."""
    version = (census.imports or {"": 1}).get("", SETTLED)
    return version >= SETTLED or not any(_may_lack_kernel(kind, version, table) for kind in census.kinds if not kind.domain)


def _may_lack_kernel(kind: NodeKind, version: int, table: Table) -> bool:
    if kind.op not in table or kind.op in OLD_KERNELS:
        return False
    sinces = [since for since, _ in table[kind.op][4] if since <= SETTLED]
    return max((since for since in sinces if since <= version), default=SETTLED) < max(sinces, default=0)


def no_lost_opset(census: Census, table: Table) -> bool:
    """The model imports something."""
    return bool(census.imports)


def no_branch_inputs(census: Census, table: Table) -> bool:
    """No node is an If whose branch has inputs."""
    return not any(kind.op == "If" and any(inner.inputs for inner in kind.bodies.values()) for kind in census.kinds)


FAULT_IS_RULED_OUT: Mapping[str, Callable[[Census, Table], bool]] = {
    "repeated_nodes": no_repeated_nodes,
    "repeated_tensors": no_repeated_tensors,
    "unsorted_nodes": no_unsorted_nodes,
    "missing_imports": no_missing_imports,
    "early_nodes": no_early_nodes,
    "branch_inputs": no_branch_inputs,
    "old_nodes": no_old_nodes,
    "lost_opset": no_lost_opset,
}
"""By the name of a fault: whether there surely is none. Of faults that are missing here nothing is known."""


def _roots(census: Census) -> list[Body]:
    return [census.graph, *census.functions.values()]


def _bodies(root: Body) -> Iterator[Body]:
    waiting = [root]
    while waiting:
        body = waiting.pop()
        yield body
        waiting.extend(body.inner)


def _are_distinct(body: Body) -> bool:
    return body.columns is None and len(set(body.names)) == len(body.names)


def _settled(root: Body) -> bool:
    """Whether each name of a graph without bodies is known to be defined once, before it is read."""
    constants, inputs = ({name for name, _ in part if name} for part in (root.constants, root.inputs))
    if root.inner or len(constants) < len(root.constants) or len(inputs) < len(root.inputs):
        return False
    if not root.orderly and root.columns is None:
        root.orderly = _is_orderly(root, {b"", *constants, *inputs})
    return root.orderly


def _is_orderly(root: Body, defined: set[bytes]) -> bool:
    for _, inputs, outputs in root.listed:
        if not defined.issuperset(inputs):
            return False
        for name in outputs:
            if name in defined and name:
                return False
            defined.add(name)
    return True


def _repeats(root: Body) -> bool:
    seen: set[bytes] = set()
    count = 0
    for body in _bodies(root):
        constants = [name for name, _ in body.constants if name]
        inputs = [name for name, _ in body.inputs if name]
        if len(set(constants)) < len(constants) or len(set(inputs)) < len(inputs):
            return True
        if body.orderly and root is body:
            continue
        names = [name for _, _, outputs in body.nodes for name in outputs if name]
        names += {*constants, *inputs}
        seen.update(names)
        count += len(names)
    return len(seen) < count


def _is_sorted(root: Body) -> bool:
    if root.orderly:
        return True
    defined: set[bytes] = {b""}
    early: set[bytes] = set()
    _read(root, defined, early)
    return not early & defined


def _read(body: Body, defined: set[bytes], early: set[bytes]) -> None:
    """Goes through the nodes in their order; `early` are names that were read before they were defined."""
    defined.update(name for name, _ in body.constants)
    defined.update(name for name, _ in body.inputs)
    for kind, inputs, outputs in body.nodes:
        if not defined.issuperset(inputs):
            early.update(name for name in inputs if name not in defined)
        for inner in kind.bodies.values():
            _read(inner, defined, early)
        defined.update(outputs)
    early.update(name for name, _ in body.outputs if name not in defined)


def _imported(root: Body, imports: Mapping[str, int]) -> Iterator[bool]:
    for body in _bodies(root):
        for domain in {kind.domain for kind in body.kinds}:
            yield domain in imports
