"""Frozen dataclasses with slots that cost nothing to declare.

`dataclasses.dataclass` writes and compiles the source of six methods for each class: 0.4 ms of every start for each of the
forty records of the syntax. The methods here are shared closures; the classes are dataclasses to all that ask (`fields`,
`replace`, `is_dataclass`, type checkers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
    from operator import attrgetter

    def record(*, frozen: bool, slots: bool) -> Any:
        """The decorator; it takes what a type checker must see, `frozen=True, slots=True`, and nothing else."""
        assert frozen and slots
        return _record

    def _record(cls: type) -> type:
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # `dataclass` would make one of the signature, which takes long
        found = fields(dataclass(init=False, repr=False, eq=False)(cls))
        names = tuple(field.name for field in found)
        body = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
        made = type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": names, "__qualname__": cls.__qualname__})
        _equip(made, names, tuple(field.default for field in found))
        return made

    def _equip(cls: type, names: tuple[str, ...], defaults: tuple[Any, ...]) -> None:
        count = len(names)
        setters = tuple(vars(cls)[name].__set__ for name in names)
        values = attrgetter(*names) if count != 1 else lambda self: (getattr(self, names[0]),)

        def complete(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
            rest = names[len(given) :]
            whole = (*given, *(named.pop(name, default) for name, default in zip(rest, defaults[len(given) :], strict=True)))
            missing = [name for name, value in zip(names, whole, strict=False) if value is MISSING]
            if missing or named or len(whole) > count:
                raise TypeError(f"{cls.__name__} takes {names}; wrong: {(*missing, *named, *whole[count:])}")
            return whole

        def init(self: Any, *given: Any, **named: Any) -> None:
            if named or len(given) != count:
                given = complete(given, named)
            for setter, value in zip(setters, given):  # noqa: B905 -- their number was seen to
                setter(self, value)

        def equal(self: Any, other: object) -> Any:
            return values(self) == values(other) if other.__class__ is cls else NotImplemented

        def hashed(self: Any) -> int:
            return hash(values(self))

        def shown(self: Any) -> str:
            return f"{cls.__qualname__}({', '.join(f'{n}={v!r}' for n, v in zip(names, values(self), strict=True))})"

        def reduced(self: Any) -> tuple[Any, ...]:
            return cls, values(self)

        def refuse(self: Any, name: str, value: Any = None) -> None:
            raise FrozenInstanceError(f"cannot change field {name!r}")

        methods = {"__init__": init, "__eq__": equal, "__hash__": hashed, "__repr__": shown, "__reduce__": reduced}
        for name, method in {**methods, "__setattr__": refuse, "__delattr__": refuse}.items():
            setattr(cls, name, method)
