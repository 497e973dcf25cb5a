"""Dataclasses that cost nothing to declare, and no more to use.

`dataclasses.dataclass` writes, compiles and runs the source of up to six methods for each class, 0.4 ms of every start, and is
itself as long to import as twenty modules. Here the methods are shared functions, except for the constructor, which is compiled
when it has been called for a while. `fields`, `replace`, `is_dataclass` and type checkers treat the classes as dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["as_dict", "field", "getter", "names", "record", "replace"]

RARE = 16
"""Objects of a class before its constructor is compiled; most classes have fewer in a run, and compiling takes 0.1 ms."""


def names(kind: type) -> tuple[str, ...] | None:
    """The fields of a record in their order; None for any other class."""
    entries = kind.__dict__.get("__record__")
    return None if entries is None else tuple(entries)


@cache
def getter(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of some fields of a record as a tuple."""
    if len(fields) > 1:
        return attrgetter(*fields)
    return (lambda one: (getattr(one, fields[0]),)) if fields else lambda one: ()


def as_dict(one: Any) -> Any:
    """A record as a dictionary, and so all records in it; everything else as it is."""
    found = names(type(one))
    if found is not None:
        return {name: as_dict(getattr(one, name)) for name in found}
    if isinstance(one, dict):
        return {key: as_dict(value) for key, value in one.items()}
    return type(one)(map(as_dict, one)) if isinstance(one, list | tuple) else one


if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, replace
else:
    _NONE = object()
    _counts: dict[type, int] = {}

    class field:
        """The options of a field."""

        __slots__ = ("compare", "default", "factory", "init", "metadata")

        def __init__(self, *, default=_NONE, default_factory=_NONE, init=True, compare=True, metadata=None) -> None:
            self.default = default
            self.factory = default_factory
            self.init = init
            self.compare = compare
            self.metadata = metadata

    def record(cls=None, *, frozen=False, slots=False, eq=True):
        """The decorator, with the meaning that these words have for `dataclasses.dataclass`."""
        return (lambda cls: _as_record(cls, frozen, slots, eq)) if cls is None else _as_record(cls, frozen, slots, eq)

    def replace(one, /, **changes):
        """The same record with other values."""
        for name, entry in type(one).__record__.items():
            if entry.init and name not in changes:
                changes[name] = getattr(one, name)
        return type(one)(**changes)

    def _as_record(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
        body = dict(vars(cls))
        own = {name: _entry(body.get(name, _NONE)) for name in body.get("__annotations__", ())}
        entries = {}
        for base in reversed(cls.__mro__[1:-1]):
            entries |= base.__dict__.get("__record__", {})
        new = {"__slots__": tuple(name for name in own if name not in entries)} if slots else {}
        entries |= own
        new |= {
            "__record__": entries,
            "__dataclass_fields__": _Fields(),
            "__match_args__": _taken(entries),
            "__frozen__": frozen,
        }
        methods = {"__init__": _init, "__repr__": _shown}
        if eq:
            methods |= {"__eq__": _equal, "__hash__": _hashed if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
            if slots:
                methods |= {"__getstate__": _get, "__setstate__": _put}
        new |= {name: method for name, method in methods.items() if name not in body}
        if slots:
            for name in (*own, "__dict__", "__weakref__"):
                body.pop(name, None)
            return type(cls)(cls.__name__, cls.__bases__, {**body, **new, "__qualname__": cls.__qualname__})
        for name, entry in own.items():
            if entry.default is not _NONE:
                new[name] = entry.default
            elif name in body:
                delattr(cls, name)
        for name, value in new.items():
            setattr(cls, name, value)
        return cls

    def _entry(value) -> field:
        return value if isinstance(value, field) else field(default=value)

    def _taken(entries) -> tuple[str, ...]:
        return tuple([name for name, entry in entries.items() if entry.init])

    def _owner(cls: type) -> type:
        """The record that a class is, or that it was made from."""
        return next(base for base in cls.__mro__ if "__record__" in base.__dict__)

    @cache
    def _values(cls: type, compared: bool = False):
        """A function that returns the values of the fields as a tuple."""
        return getter(tuple([name for name, entry in cls.__record__.items() if entry.compare or not compared]))

    def _init(self, *arguments, **named) -> None:
        """The constructor of the first objects of a class."""
        owner = _owner(type(self))
        count = _counts[owner] = _counts.get(owner, 0) + 1
        taken = owner.__match_args__
        values = {**dict(zip(taken, arguments)), **named}  # noqa: B905 -- whether they fit is seen to below
        fit = len(values) == len(arguments) + len(named) and values.keys() <= set(taken)
        for name, entry in owner.__record__.items():
            if name not in values and (entry.default is not _NONE or entry.factory is not _NONE):
                values[name] = entry.default if entry.factory is _NONE else entry.factory()
        if count > RARE or not fit or not all(name in values for name in taken):
            owner.__init__ = constructor = _constructor(owner)  # which also raises errors about wrong arguments
            constructor(self, *arguments, **named)
            return
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if hasattr(owner, "__post_init__"):
            self.__post_init__()

    def _shown(self) -> str:
        cls = type(self)
        parts = [f"{name}={value!r}" for name, value in zip(cls.__record__, _values(cls)(self), strict=True)]
        return f"{cls.__qualname__}({', '.join(parts)})"

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _values(self.__class__, True)
        return values(self) == values(other)

    def _hashed(self) -> int:
        return hash(_values(self.__class__, True)(self))

    def _get(self):
        return _values(type(self))(self)

    def _put(self, state) -> None:
        for name, value in zip(type(self).__record__, state, strict=True):
            object.__setattr__(self, name, value)

    def _refuse(self, name: str, value=None) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    def _constructor(cls: type):
        """`__init__` with a parameter for each field; compiled, since constructors run more often than all else."""
        frozen, slots = cls.__frozen__, "__slots__" in cls.__dict__
        known: dict[str, Any] = {"_NONE": _NONE, "_set": object.__setattr__}
        takes, does = [], []
        for name, entry in cls.__record__.items():
            value = name
            if entry.factory is not _NONE:
                known[f"_new_{name}"] = entry.factory
                value = f"_new_{name}() if {name} is _NONE else {name}" if entry.init else f"_new_{name}()"
            if entry.init:
                known[f"_or_{name}"] = entry.default  # _NONE if a factory makes it
                optional = entry.default is not _NONE or entry.factory is not _NONE
                takes.append(f"{name}=_or_{name}" if optional else name)
            elif entry.factory is _NONE and entry.default is _NONE:
                continue
            elif entry.factory is _NONE:
                known[f"_or_{name}"], value = entry.default, f"_or_{name}"
            if frozen and slots:
                known[f"_put_{name}"] = getattr(cls, name).__set__
                does.append(f"_put_{name}(self, {value})")
            else:
                does.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            does.append("self.__post_init__()")
        exec(f"def __init__({', '.join(('self', *takes))}):\n " + "\n ".join(does or ["pass"]), known)
        constructor = known["__init__"]
        constructor.__qualname__ = f"{cls.__qualname__}.__init__"
        return constructor

    class _Fields:
        """`__dataclass_fields__` of a record, made by `dataclasses` itself on first use."""

        def __get__(self, one, owner):
            import dataclasses

            cls = _owner(owner)
            annotations: dict[str, Any] = {}
            for base in reversed(cls.__mro__):
                annotations |= vars(base).get("__annotations__", {})
            body: dict[str, Any] = {"__annotations__": {name: annotations[name] for name in cls.__record__}}
            for name, entry in cls.__record__.items():
                said = {"init": entry.init, "compare": entry.compare, "metadata": entry.metadata}
                if entry.default is not _NONE:
                    said["default"] = entry.default
                if entry.factory is not _NONE:
                    said["default_factory"] = entry.factory
                body[name] = dataclasses.field(**said)
            plain = dataclasses.dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), body))
            found = plain.__dataclass_fields__
            cls.__dataclass_fields__ = found
            return found
