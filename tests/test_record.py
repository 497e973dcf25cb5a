"""Records are dataclasses in all but the time that declaring them takes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass

import pytest

from rewriter.core.language import ast
from rewriter.core.record import RARE, as_dict, field, names, record, replace


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
    assert replace(Point(1), y=5) == dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "names": ()}
    assert as_dict(Point(1, 2, ("a",))) == dataclasses.asdict(Point(1, 2, ("a",)))
    assert as_dict([One({"a": One((1,))})]) == [{"x": {"a": {"x": (1,)}}}]
    assert names(Point) == ("x", "y", "names")
    assert names(int) is None
    rule = ast.Rule("A1", "a", (), (), ast.Match(), (), span=ast.Span(1, 2))
    assert pickle.loads(pickle.dumps(rule)) == rule == copy.deepcopy(rule)


@record
class Open:
    """Neither frozen nor with slots."""

    x: int
    notes: list[str] = field(default_factory=list)
    hidden: int = field(default=3, compare=False)
    own: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.own = [self.x]


@record(eq=False, slots=True)
class Kind:
    x: int = 1
    notes: list[str] = field(default_factory=list)


@record(frozen=True)
class Set:
    x: int = 1
    hidden: int = field(default=0, compare=False)


@record(slots=True)
class Below(Kind):
    z: int = 5


def test_records_that_change() -> None:
    one, other = Open(1), Open(1, hidden=4)
    one.notes.append("a")
    assert (other.notes, one.own) == ([], [1])
    assert one != other
    other.notes.append("a")
    assert one == other
    assert replace(one, x=2).own == [2]
    with pytest.raises(TypeError):
        hash(one)
    assert repr(one) == "Open(x=1, notes=['a'], hidden=3, own=[1])"
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)


def test_records_that_are_themselves() -> None:
    one = Kind()
    one.notes.append("a")
    assert one != Kind(1, ["a"])
    assert len({one, Kind()}) == 2
    assert pickle.loads(pickle.dumps(one)).notes == ["a"]
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.other = 2  # type: ignore[attr-defined]


def test_frozen_without_slots() -> None:
    assert Set() == Set(1, hidden=7)
    assert hash(Set()) == hash(Set(1, hidden=7))
    with pytest.raises(FrozenInstanceError):
        Set().x = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(Set(4, 5))).hidden == 5


def test_a_record_of_a_record() -> None:
    one = Below(2, z=6)
    assert (one.x, one.notes, one.z) == (2, [], 6)
    assert names(Below) == ("x", "notes", "z")
    assert [entry.name for entry in fields(Below)] == ["x", "notes", "z"]
    assert "x" not in Below.__slots__  # type: ignore[attr-defined]


def test_declaring_imports_nothing() -> None:
    program = "import sys, rewriter.core.language.ast; assert not {'dataclasses', 'inspect'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_first_objects_are_as_the_others() -> None:
    @record(slots=True)
    class Late:
        x: int
        notes: list[str] = field(default_factory=list)
        own: int = field(init=False)

        def __post_init__(self) -> None:
            self.own = self.x + 1

    made = [Late(number) if number % 2 else Late(x=number, notes=["a"]) for number in range(3 * RARE)]
    assert [one.own for one in made] == list(range(1, 3 * RARE + 1))
    assert [one.notes for one in made] == [["a"], []] * (3 * RARE // 2)
    assert len({id(one.notes) for one in made}) == len(made)
