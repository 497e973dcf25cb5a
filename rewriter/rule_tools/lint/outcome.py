"""The graph that a rule leaves behind, as far as it follows from the rule itself.

New and edited nodes are shown exactly; other matched nodes are shown as the pattern requires them. The graph decides the two
questions of termination: can a rule match the result of a rule, and does a count fall each time?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.ast import pattern_nodes, walk
from rewriter.core.language.claims import ABSENT_TERM, Branch, Claim, Domain, Term, TermRef, compare, fold, heads, is_constant
from rewriter.core.language.operator_traits import SAME_RANK, traits
from rewriter.core.language.pattern import asks_more
from rewriter.core.language.schema import computed_default, normal
from rewriter.core.record import field, record, replace
from rewriter.rule_tools.lint.overlay import OpKey, Overlay, RuleGraph, RuleNode, RuleSubject, count_ports, default

_PASSING = frozenset({"uses", "users", "is_output", "is_input"})  # facts that a rewrite may change about old tensors
_OF_TENSORS = frozenset(
    {"is_const", "present", "producer", "name", "value", "constant", "fill"}
)  # facts about a constant as a tensor
_RANKS = {"flatten": 2, "gemm": 2, "shape": 1, "size": 0}


@record(slots=True)
class Written:
    """Attributes of a node that the rewrite made or edited, in terms of nodes as they were.

    `copied` is the node that all other attributes come from; `edited`: the new node is that one, with its name.
    """

    values: dict[str, Term] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    copied: TermRef | None = None
    edited: bool = False


def _stays(literal: Claim) -> bool:
    return not heads(literal.term) & _PASSING


@record(slots=True)
class CountChange:
    """Nodes that a firing adds, and nodes that it certainly removes, by their possible operators: an empty set for any."""

    added: Counter[OpKey] = field(default_factory=Counter)
    removed: list[frozenset[OpKey]] = field(default_factory=list)

    def of(self, ops: frozenset[OpKey] | None) -> int:
        """The largest number of nodes of these operators (None: of all) that a firing adds."""
        more = sum(count for op, count in self.added.items() if ops is None or op in ops)
        return more - sum(1 for gone in self.removed if ops is None or (gone and gone <= ops))


@record(slots=True)
class RewriteResult:
    """The result of one rewrite block. `touched` are new and edited nodes; `change` is None if it is unknown."""

    picture: RuleGraph
    touched: frozenset[TermRef]
    change: CountChange | None


def outcomes(of: RuleSubject) -> list[RewriteResult]:
    """One for each rewrite block of a rule that matches nodes."""
    return [_ResultWriter(of, block).outcome() for block in of.rule.ast.rewrites] if of.picture is not None else []


def consumes_root(of: RuleSubject) -> bool:
    """Whether every firing permanently replaces the root for its readers."""
    return of.picture is not None and all(of.picture.root in _taken(of, block) for block in of.rule.ast.rewrites)


def _redefined(block: ast.Rewrite) -> set[str]:
    names = {s.output for s in block.statements if isinstance(s, ast.Redirect)}
    return names | {o.name for s in block.statements if isinstance(s, ast.Build) for o in s.outputs if o.name}


def _tensors_read(block: ast.Rewrite) -> set[str]:
    """Names of tensors that the nodes of the block read; a tensor from which it only computes a value is not read."""
    edited = [s.value for s in block.statements if isinstance(s, ast.Edit) and s.place.field == "inputs"]
    names = {value.id for value in edited if isinstance(value, ast.Name)}
    return names | {one.name for one in walk(block) if isinstance(one, ast.Ref | ast.AddOutput)}


def _taken(of: RuleSubject, block: ast.Rewrite) -> set[TermRef]:
    """Matched nodes that no node reads any more: all outputs are redefined, and no old value is read again."""
    assert of.pattern is not None
    gone: set[int] = set()
    redefined, reads = _redefined(block), _tensors_read(block)
    private = {name for item in of.rule.ast.privates for name in item.names}
    before = None
    while before != gone:  # a private result stays as long as a node that reads it does
        before = set(gone)
        for node in of.pattern.nodes:
            names = {output.name for output in node.source.outputs}
            free = redefined | (private - reads if gone.issuperset(node.uses) else set())
            if names and names <= free and not names & reads:
                gone.add(node.number)
    deleted = {s.place.base for s in block.statements if isinstance(s, ast.Delete) and s.place.field is None}
    taken = {TermRef("node", of.names.side, number) for number in gone}
    return taken | {ref for name in deleted if isinstance(ref := of.names.known.get(name), TermRef) and ref.kind == "node"}


class _ResultWriter:
    def __init__(self, of: RuleSubject, block: ast.Rewrite) -> None:
        self._of = of
        self._block = block
        self._before = of.graph
        self._side = of.names.side
        self._reach = [v for v in of.reach if block.opset is None or v in block.opset]
        self._nodes = {ref: replace(node) for ref, node in self._before.nodes.items()}
        self._written: dict[TermRef, Written] = {}
        self._output_terms: dict[str, TermRef | Term] = {}
        self._labels: dict[str, TermRef] = {}
        self._arrays: dict[TermRef, Term] = {}
        self._dtypes: dict[TermRef, Term] = {}
        self._now: dict[TermRef, TermRef] = {}
        self._wrapped: dict[TermRef, tuple[str, ...]] = {}
        self._change = CountChange()
        self._known = True

    def outcome(self) -> RewriteResult:
        for statement in self._block.statements:
            _STATEMENTS[type(statement)](self, statement)
        taken = {self._now.get(ref, ref) for ref in _taken(self._of, self._block)}
        for ref in taken:
            node = self._nodes.pop(ref)
            if not node.more_outputs:  # else another output may still be used
                self._change.removed.append(node.ops or frozenset())
        for node in self._nodes.values():
            node.inputs = tuple(map(self._made_now, node.inputs))
        self._wrap()
        wrapped = [TermRef("node", self._side, term.at) for term in self._wrapped]
        touched = frozenset([*self._written, *wrapped]) & frozenset(self._nodes)
        facts = [literal for literal in self._before.facts if _stays(literal)]
        facts.append(Claim(("opset",), Domain(only=frozenset(self._reach))))
        facts += [compare(("name", term), "<>", ("name", TermRef("node", term.side, term.at))) for term in self._wrapped]
        branches: list[Branch] = [tuple(filter(_stays, branch)) for branch in self._before.branches]
        constants = self._before.constants | set(self._arrays)
        count_ports(self._nodes, self._before.optional)
        picture = replace(
            self._before,
            nodes=self._nodes,
            facts=facts,
            branches=branches,
            constants=constants,
            resolve=self._resolve,
        )
        return RewriteResult(picture, touched, self._change if self._known else None)

    def _made_now(self, ref: TermRef | Term) -> TermRef | Term:
        """The output of an edited node, if an operand is an output of the node before the edit."""
        maker = self._now.get(TermRef("node", ref.side, ref.at)) if isinstance(ref, TermRef) and ref.kind == "made" else None
        return ref if maker is None else replace(ref, at=maker.at)

    def _wrap(self) -> None:
        """`y = Cast<to=float>(y)`: the root stays, under a new name, and only new nodes read it."""
        root = self._now.get(self._before.root, self._before.root)
        for name in _redefined(self._block) if root in self._nodes else ():
            term = self._made_now(self._of.names.known.get(name))
            if isinstance(term, TermRef) and term.at == root.at:
                readers = [node for ref, node in self._nodes.items() if ref in self._written and term in node.inputs]
                self._wrapped[term] = tuple(op for node in readers for _, op in node.ops or ())

    # --- statements --------------------------------------------------------------------------------------------------------

    def _redirect(self, redirect: ast.Redirect) -> None:
        self._output_terms[redirect.output] = self._operand(redirect.target)

    def _delete(self, delete: ast.Delete) -> None:
        if (ref := self._node_of(delete.place.base)) is not None and delete.place.field is not None:
            written = self._written[self._touch(ref)]
            written.deleted.add(delete.place.field)
            written.values.pop(delete.place.field, None)

    def _unforeseen(self, statement: ast.Inline | ast.Mend) -> None:
        """The result depends on the model."""
        self._known = False

    def _add_output(self, statement: ast.AddOutput) -> None:
        """No node comes or goes."""

    def _each(self, each: ast.Each) -> None:
        """The number of new nodes, and the tensors that they replace, depend on the model."""
        self._known = False
        if each.field and (ref := self._node_of(each.base)) is not None:
            self._nodes[self._touch(ref)].open_up()

    def _node_of(self, label: str) -> TermRef | None:
        found = self._labels.get(label, self._of.names.known.get(label))
        return found if isinstance(found, TermRef) and found.kind == "node" else None

    def _touch(self, ref: TermRef) -> TermRef:
        """The node after an edit, which differs from the node that the conditions are about."""
        if ref in self._written:
            return ref
        if ref not in self._now:
            now = self._now[ref] = self._new(Written(copied=ref, edited=True))
            self._nodes[now] = replace(self._nodes.pop(ref), ref=now)
        return self._now[ref]

    def _new(self, written: Written) -> TermRef:
        ref = TermRef("node", self._side, f"new {len(self._written)}")
        self._written[ref] = written
        return ref

    def _edit(self, edit: ast.Edit) -> None:
        found, name = self._node_of(edit.place.base), edit.place.field
        if found is None or name is None or name in ("doc_string", "metadata_props"):
            return
        ref = self._touch(found)
        node, written = self._nodes[ref], self._written[ref]
        if name == "inputs":
            position = edit.place.index.value if isinstance(edit.place.index, ast.Literal) else None
            value = self._operand(edit.value)
            if not isinstance(position, int) or not 0 <= position < 64:
                node.open_up()
                return
            filled = (*node.inputs, *(ABSENT_TERM for _ in range(position + 1 - len(node.inputs))))
            node.inputs = (*filled[:position], value, *filled[position + 1 :])
        elif name == "op":
            self._rename(node, edit.value)
        elif not isinstance(edit.value, ast.Constant | ast.Absent | ast.Build):
            written.values[name] = self._of.names.term(edit.value)
            written.deleted.discard(name)

    def _rename(self, node: RuleNode, value: object) -> None:
        """`n.op = "..."`: a node fewer of the old and one more of the new operator."""
        ops = None
        if isinstance(value, ast.Literal) and isinstance(value.value, str):
            ops = frozenset({("", value.value)})
            self._change.added.update(ops)
            self._change.removed.append(node.ops or frozenset())
        self._known = self._known and ops is not None
        node.ops = ops

    def _build(self, build: ast.Build) -> TermRef:
        ref = self._new(Written())  # nested nodes are numbered after this one
        inputs = tuple(self._operand(operand) for operand in build.inputs)
        values = {attr.name: self._of.names.term(attr.value) for attr in build.attrs if isinstance(attr, ast.AttrSet)}
        copied = next((self._node_of(attr.label) for attr in build.attrs if isinstance(attr, ast.AttrCopy)), None)
        self._written[ref] = Written(values, set(), copied)
        key = (normal(build.op.domain), build.op.name)
        self._change.added[key] += 1
        if build.op.param:
            self._known = False
        ops = None if build.op.param else frozenset({key})
        self._nodes[ref] = RuleNode(ref, ops, inputs, ordered=True, outputs=max(1, len(build.outputs)), span=build.op.span)
        for part, output in enumerate(build.outputs):
            if output.name:
                self._output_terms[output.name] = TermRef("made", self._side, ref.at, part)
        if build.label:
            self._labels[build.label] = ref
        return ref

    def _operand(self, operand: ast.NewOperand | ast.Expr) -> TermRef | Term:
        if isinstance(operand, ast.Absent):
            return ABSENT_TERM
        if isinstance(operand, ast.Build):
            return TermRef("made", self._side, self._build(operand).at)
        if isinstance(operand, ast.Constant):
            ref = TermRef("const", self._side, f"new {len(self._arrays)}")
            self._arrays[ref] = self._of.names.term(operand.value)
            if operand.dtype is not None:
                self._dtypes[ref] = ("element", operand.dtype)
            return ref
        name = operand.name if isinstance(operand, ast.Ref) else operand.id if isinstance(operand, ast.Name) else ""
        if isinstance(operand, ast.Ref) and operand.spread:
            return TermRef("run", self._side, name)
        found = self._of.names.known.get(name, self._output_terms.get(name))  # a redefined name is read with its old meaning
        return found if isinstance(found, TermRef) or found == ABSENT_TERM else TermRef("open", self._side, name)

    # --- terms of new nodes, in terms of matched nodes -----------------------------------------------------------------------

    def _resolve(self, term: Term) -> Term:
        term = fold(term)
        subject = term[1] if isinstance(term, tuple) and len(term) > 1 else None
        if not isinstance(subject, TermRef):
            return term
        if subject.kind == "node" and subject in self._written:
            return self._of_node(term, subject, self._written[subject])
        if subject.kind == "const" and subject in self._arrays:
            return self._of_constant(term, subject)
        if subject in self._wrapped and term[0] in _PASSING:
            readers = ("list", *self._wrapped[subject])
            return fold({"users": readers, "uses": len(readers) - 1}.get(term[0], False))
        if subject.kind == "made":
            node = self._nodes.get(TermRef("node", subject.side, subject.at))
            if node is not None and node.ref in self._written and subject.part == 0:
                return self._of_output(term, node)
        return term

    def _of_node(self, term: Term, ref: TermRef, written: Written) -> Term:
        node, copied = self._nodes.get(ref), written.copied
        if term[0] == "op":
            return next(iter(node.ops))[1] if node is not None and node.ops is not None and len(node.ops) == 1 else term
        if term[0] == "attr":
            return self._attribute(term, written, node)
        if term[0] == "has":
            if term[2] in written.values or term[2] in written.deleted:
                return term[2] in written.values
            return False if copied is None else ("has", copied, term[2])
        is_kept = written.edited and (term[0] == "name" or term[0].startswith("source"))
        return (term[0], copied, *term[2:]) if is_kept else term

    def _attribute(self, term: Term, written: Written, node: RuleNode | None) -> Term:
        if term[2] in written.values:
            return written.values[term[2]]
        if written.copied is not None and term[2] not in written.deleted:
            return ("attr", written.copied, term[2])
        ops = node.ops if node is not None and node.ops is not None else frozenset()
        found = {default(domain, op, version, term[2]) for domain, op in ops for version in self._reach}
        if found == {None} and not any(computed_default(op, domain, term[2]) for domain, op in ops):
            return ABSENT_TERM
        return found.pop() if len(found) == 1 and found != {None} else term

    def _of_constant(self, term: Term, ref: TermRef) -> Term:
        if term[0] == "dtype" and ref in self._dtypes:
            return self._dtypes[ref]
        array = self._arrays[ref]
        if term[0] == "content":
            single = isinstance(array, tuple) and array[0] == "list" and len(array) == 2
            return (array[1] if single else array) if is_constant(array) else term
        if term[0] in ("rank", "dtype", "size", "len", "dim", "shape") and not isinstance(array, tuple):
            return term
        return term if term[0] in _OF_TENSORS else fold((term[0], array, *term[2:]))

    def _of_output(self, term: Term, node: RuleNode) -> Term:
        (_, op) = next(iter(node.ops)) if node.ops is not None and len(node.ops) == 1 else ("", "")
        known = traits(op)
        first = node.inputs[0] if node.inputs else None
        if term[0] == "dtype":
            if known.dtype in ("bool", "int64"):
                return ("element", known.dtype)
            if known.dtype == "to":
                return self._written[node.ref].values.get("to", term)
            return self._resolve(("dtype", first)) if known.dtype == "first" and isinstance(first, TermRef) else term
        if term[0] == "rank":
            if known.shape in _RANKS:
                return _RANKS[known.shape]
            return self._resolve(("rank", first)) if known.shape in SAME_RANK and isinstance(first, TermRef) else term
        return term


_STATEMENTS: Mapping[type, Callable[[_ResultWriter, Any], Any]] = {
    ast.Build: _ResultWriter._build,
    ast.Redirect: _ResultWriter._redirect,
    ast.Edit: _ResultWriter._edit,
    ast.Delete: _ResultWriter._delete,
    ast.Inline: _ResultWriter._unforeseen,
    ast.Mend: _ResultWriter._unforeseen,
    ast.Each: _ResultWriter._each,
    ast.AddOutput: _ResultWriter._add_output,
}


# Two rules that match the same node in any order: neither reads a place that the other writes.
#
# Many repairs change one attribute or one operand and keep the rest. Such rules need no `before`.

Place = tuple[TermRef, str, int]
"""A node, the name of an attribute or "inputs", and the operand's position (0 for attributes)."""

ALL = "*"


def independent(one: RuleSubject, other: RuleSubject, overlay: Overlay) -> bool:
    """Whether the order of two firings at this place makes no difference."""
    mine, theirs = _writes(one), _writes(other)
    if (mine is None and not _goes_first(other, theirs, one)) or (theirs is None and not _goes_first(one, mine, other)):
        return False
    written = _there(mine or set(), overlay)
    return not (_touch(written, (theirs or set()) | _reads(other)) or _touch(theirs or set(), _there(_reads(one), overlay)))


def _goes_first(one: RuleSubject, writes: set[Place] | None, other: RuleSubject) -> bool:
    """Whether the one edits only a node that the other removes."""
    return writes is not None and {place[0] for place in writes} <= {one.graph.root} and consumes_root(other)


def _there(places: set[Place], overlay: Overlay) -> set[Place]:
    return {(overlay.nodes.get(node, node), name, at) for node, name, at in places}


def _touch(written: set[Place], read: set[Place]) -> bool:
    return any({(node, name, at), (node, ALL, 0), (node, name, -1)} & read for node, name, at in written)


def _writes(subject: RuleSubject) -> set[Place] | None:
    """The places that a rule edits; None if it changes the matched nodes in any other way."""
    known = subject.names.known
    found: set[Place] = set()
    for block in subject.rule.ast.rewrites:
        for statement in block.statements:
            if isinstance(statement, ast.Build) and not any(output.name in known for output in statement.outputs):
                continue
            place = statement.place if isinstance(statement, ast.Edit | ast.Delete) else None
            node = known.get(place.base) if place is not None else None
            if place is None or place.field in (None, "op") or not (isinstance(node, TermRef) and node.kind == "node"):
                return None
            if place.field != "inputs":
                found.add((node, str(place.field), 0))
            elif isinstance(place.index, ast.Literal) and isinstance(place.index.value, int):
                found.add((node, "inputs", place.index.value))
            else:
                return None
    return found


def _reads(subject: RuleSubject) -> set[Place]:
    """All places of matched nodes that the rule's firing depends on: tested attributes, operands that it mentions."""
    assert subject.pattern is not None
    rule, known = subject.rule.ast, subject.names.known
    parts = [part for outside in (*rule.wheres, *rule.lets, *rule.rewrites) for part in walk(outside)]
    operands = [operand for node in pattern_nodes(rule.match) for operand in node.inputs]
    captures = Counter(operand.name for operand in operands if isinstance(operand, ast.Capture | ast.Variadic))
    spoken: set[str | None] = {name for name, count in captures.items() if count > 1}
    spoken |= {part.id if isinstance(part, ast.Name) else part.name for part in parts if isinstance(part, ast.Name | ast.Ref)}
    found: set[Place] = set()
    for node in subject.pattern.nodes:
        ref, source = TermRef("node", subject.names.side, node.number), node.source
        found |= {(ref, attr.name, 0) for attr in source.attrs}
        found |= {(ref, "inputs", at) for at, operand in enumerate(source.inputs) if not _is_passed(operand, spoken)}
        if spoken & {output.name for output in source.outputs}:
            found.add((ref, ALL, 0))  # facts about its output depend on all of the node
    for label, name in _fields(parts):
        if isinstance(node_ref := known.get(label), TermRef):
            found.add((node_ref, name, -1 if name == "inputs" else 0))
    return found


def _is_passed(operand: ast.Operand, spoken: set[str | None]) -> bool:
    """Whether the rule neither tests nor mentions an operand."""
    if isinstance(operand, ast.Capture):
        return not asks_more(operand) and operand.name not in spoken
    return isinstance(operand, ast.Wildcard)


def _fields(parts: list[object]) -> Iterator[tuple[str, str]]:
    """Labels with the fields or attributes of their nodes that are read: `n.axis`, `has(n, "axis")`, `..n`."""
    for part in parts:
        match part:
            case ast.Field(value=ast.Name(id=label), name=name):
                yield label, name
            case ast.AttrCopy(label=label):
                yield label, ALL
            case ast.Call(args=(ast.Name(id=label), ast.Literal(value=name), *_)):
                yield label, str(name)
