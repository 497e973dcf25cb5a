"""What the rows of the table of operators say is held against the schemas, and every name in them means something."""

from __future__ import annotations

from collections import Counter

import pytest

from rewriter.core.facts import array_functions, infer, shape_rules
from rewriter.core.language import operator_traits, schema
from rewriter.core.language.operator_traits import TRAITS, WORDS, Traits, pick
from rewriter.repairs.dim_follow import follow as any_size
from rewriter.repairs.dim_follow import mend
from rewriter.trust.proof.instances import random_arrays, recipes

FORMS = {known.shape for known in TRAITS.values()}
RULES = {known.rule for known in TRAITS.values()}
ONNX = [op for op in TRAITS if schema.history(op)]


def test_an_operator_has_one_row() -> None:
    counts = Counter(op for ops, _ in operator_traits._ROWS for op in ops.split())
    assert [op for op, count in counts.items() if count > 1] == []


def test_every_word_is_explained_and_used() -> None:
    assert {word for known in TRAITS.values() for word in known.words.split()} == WORDS.keys()


def test_rules_are_of_forms_and_names_that_operators_have() -> None:
    assert shape_rules.RULES.keys() <= FORMS
    assert set(any_size._FORMS) <= FORMS
    assert mend.MENDERS.keys() <= FORMS
    assert operator_traits.SAME_RANK <= FORMS
    assert array_functions.FUNCTIONS.keys() <= RULES


def test_what_is_computed_has_a_rule() -> None:
    assert {found.computes for found in TRAITS.values()} - {""} <= array_functions.FUNCTIONS.keys()


@pytest.mark.parametrize("table", [infer.CORRECTIONS, recipes.RECIPES, random_arrays._LENGTHS], ids=range(3))
def test_mixed_tables_name_forms_or_operators(table: dict[str, object]) -> None:
    for key in table:
        assert key in FORMS or schema.history(key), key


def test_an_operator_comes_before_its_form() -> None:
    assert pick({"broadcast": 1, "Div": 2}, "Div") == 2
    assert pick({"broadcast": 1, "Div": 2}, "Add") == 1
    assert pick({"broadcast": 1}, "NoSuchOperator") is None


@pytest.mark.parametrize("op", ONNX)
def test_element_types_are_those_of_the_schemas(op: str) -> None:
    wanted = {"first": 0, "second": 1}.get(TRAITS[op].dtype)
    for found in schema.registered(op):
        if found.deprecated or not found.outputs:
            continue
        kind = found.outputs[0].type_str
        if wanted is not None:
            operands = [formal.type_str for formal in found.inputs]
            assert operands[min(wanted, len(operands) - 1)] == kind, found.since_version
        elif TRAITS[op].dtype in ("bool", "int64"):
            allowed = {one.type_param_str: one.allowed_type_strs for one in found.type_constraints}.get(kind, [kind])
            assert list(allowed) == [f"tensor({TRAITS[op].dtype})"], found.since_version
        elif TRAITS[op].dtype:
            assert TRAITS[op].dtype in found.attributes, found.since_version


@pytest.mark.parametrize("op", ONNX)
def test_operands_are_there(op: str) -> None:
    known = TRAITS[op]
    most = max(found.max_inputs or 99 for found in schema.history(op))
    assert all(place < most for place in (*known.deciding, known.indices or 0, known.axes or 0))
    if known.indices is not None:
        assert schema.history(op)[-1].inputs[known.indices].name.endswith("indices")
    if known.axes is not None:
        assert schema.history(op)[-1].inputs[known.axes].name in ("axes", "axis")
    if "commutative" in known.words:
        assert most > 1


def test_nothing_is_known_of_an_operator_without_a_row() -> None:
    assert operator_traits.traits("NoSuchOperator") == Traits()
