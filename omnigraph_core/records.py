"""Frozen dataclasses that cost nothing until they are used.

`dataclasses.dataclass` compiles six methods for every class it is put on, half a millisecond
each time a process starts. There are two hundred classes, and a command makes objects of a few
of them. Here all but `__init__` are shared, and `__init__` is compiled when there are many objects
to make. To a type checker, and to `dataclasses.replace`, `fields` and `asdict`, it is the same thing;
`tests/unit/test_records.py` compares the two.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`@dataclass(frozen=True, slots=True)`; any other kind is left to the standard library."""
        if options != {"frozen": True, "slots": True}:
            return dataclasses.dataclass(cls, **options)
        return _record if cls is None else _record(cls)


_Fields = dict[str, Field[Any]]


def _record(cls: type) -> type:
    """The class again, with slots for its fields, and with the methods of a frozen dataclass."""
    inherited: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= base.__dict__.get("__dataclass_fields__", {})
    own = _own_fields(cls)
    fields = inherited | own
    body = {name: value for name, value in cls.__dict__.items() if name not in _LEFT_BEHIND | own.keys()}
    body["__slots__"] = tuple(name for name in own if name not in inherited)
    body["__dataclass_fields__"] = fields
    body.setdefault("__match_args__", tuple(name for name, each in fields.items() if each.init))
    for name, method in {**_SHARED, **_compared(fields)}.items():
        body.setdefault(name, method)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    if "__init__" not in body:
        _compile_when_it_pays(made, fields)
    return made


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a record by name, as they are: `asdict` copies all that is in them."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


_USES_BEFORE_COMPILING = 24
_uncompiled: list[Callable[[], None]] = []
_LEFT_BEHIND = frozenset({"__dict__", "__weakref__"})


def _own_fields(cls: type) -> _Fields:
    fields: _Fields = {}
    for name, annotation in inspect.get_annotations(cls).items():
        if "ClassVar" in str(annotation):
            continue
        given = cls.__dict__.get(name, MISSING)
        each: Field[Any] = given if isinstance(given, Field) else field(default=given)
        each.name, each.type = name, annotation
        each._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        fields[name] = each
    return fields


def _compile_when_it_pays(made: type, fields: _Fields) -> None:
    """Fill the first objects field by field. Compiling takes as long as a few dozen of them."""
    names = [name for name, each in fields.items() if each.init]
    known = frozenset(names)
    uses = 0

    def __init__(self: Any, *positional: Any, **named: Any) -> None:  # noqa: N807
        nonlocal uses
        uses += 1
        given = dict(zip(names, positional, strict=False)) | named
        is_plain = len(given) == len(positional) + len(named) and given.keys() <= known
        if is_plain and uses <= _USES_BEFORE_COMPILING and _fill(self, fields, given):
            return
        compile_it()
        made.__init__(self, *positional, **named)  # type: ignore[misc]

    def compile_it() -> None:
        if made.__init__ is __init__:  # type: ignore[misc]
            made.__init__ = _compiled_init(made, fields)  # type: ignore[misc]

    made.__init__ = __init__  # type: ignore[misc]
    _uncompiled.append(compile_it)


def compile_all() -> None:
    """Compile now what would be later, for processes that are to start without doing so."""
    while _uncompiled:
        _uncompiled.pop()()


def _fill(self: Any, fields: _Fields, given: dict[str, Any]) -> bool:
    """Whether nothing is missing; what is, the compiled `__init__` names in Python's own words."""
    for name, each in fields.items():
        if name in given:
            value = given[name]
        elif each.default is not MISSING:
            value = each.default
        elif each.default_factory is not MISSING:
            value = each.default_factory()
        elif each.init:
            return False
        else:
            continue
        object.__setattr__(self, name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _compiled_init(made: type, fields: _Fields) -> Any:
    """`def __init__(self, a, b=…): …`, filling the slots past the refusal to change them."""
    names: dict[str, object] = {"_MISSING": MISSING}
    parameters, lines = ["self"], []
    for name, each in fields.items():
        names[f"_set_{name}"] = getattr(made, name).__set__
        value = name
        if each.default_factory is not MISSING:
            names[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}() if {name} is _MISSING else {name}" if each.init else f"_make_{name}()"
        elif each.default is not MISSING:
            names[f"_default_{name}"] = each.default
            value = name if each.init else f"_default_{name}"
        elif not each.init:
            continue
        lines.append(f"  _set_{name}(self, {value})")
        if each.init:
            parameters.append(name + _default(name, each))
    if hasattr(made, "__post_init__"):
        lines.append("  self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["  pass"]), names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _default(name: str, each: Field[Any]) -> str:
    if each.default_factory is not MISSING:
        return "=_MISSING"
    return "" if each.default is MISSING else f"=_default_{name}"


def _compared(fields: _Fields) -> dict[str, Any]:
    """Equal when the classes and the compared fields are; hashed alike."""
    names = [name for name, each in fields.items() if each.compare]
    values: Any = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _repr(self: Any) -> str:
    shown = [name for name, each in self.__dataclass_fields__.items() if each.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: dict[str, Any] = {
    "__repr__": _repr,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
