"""Records are dataclasses in all but the time that declaring them takes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace

import pytest

from rewriter.language import ast
from rewriter.language.record import record


@record(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    names: tuple[str, ...] = ()

    def __contains__(self, number: int) -> bool:
        return number in (self.x, self.y)


@record(frozen=True, slots=True)
class One:
    """Has a single field."""

    x: object


@dataclass(frozen=True, slots=True)
class Plain:
    x: int
    y: int = 2
    names: tuple[str, ...] = ()


def test_making() -> None:
    assert Point(1) == Point(1, 2) == Point(y=2, x=1) == Point(1, 2, names=())
    assert Point(1) != Point(2)
    assert Point(1) != Plain(1)  # type: ignore[comparison-overlap]
    assert len({Point(1), Point(1), Point(3)}) == 2
    assert One((1,)) == One((1,)) != One(1)
    assert 2 in Point(1)
    assert repr(Point(1, names=("a",))) == repr(Plain(1, names=("a",))).replace("Plain", "Point")


@pytest.mark.parametrize(("given", "named"), [((), {}), ((1, 2, (), 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_wrong_arguments(given: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(*given, **named)  # type: ignore[arg-type]


def test_frozen() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises((FrozenInstanceError, AttributeError)):
        point.other = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_what_dataclasses_can() -> None:
    assert is_dataclass(Point)
    assert [field.name for field in fields(Point)] == [field.name for field in fields(Plain)]
    assert Point.__match_args__ == Plain.__match_args__
    assert replace(Point(1), y=5) == Point(1, 5)
    rule = ast.Rule("A1", "a", (), (), ast.Match(), (), span=ast.Span(1, 2))
    assert pickle.loads(pickle.dumps(rule)) == rule == copy.deepcopy(rule)
