"""Our frozen dataclasses and the standard library's, side by side."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import Any, ClassVar

import pytest

from omnigraph_core import records


def declare(decorator: Callable[..., Any]) -> dict[str, Any]:
    """The same classes by either decorator."""

    @decorator(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    @decorator(frozen=True, slots=True)
    class Base:
        """What a subclass has as well."""

        limit: ClassVar[int] = 3
        name: str
        size: int = 0
        note: str | None = field(default=None, compare=False)
        secret: str = field(default="s", repr=False)
        items: list[int] = field(default_factory=list)
        derived: dict[str, int] = field(init=False, repr=False, compare=False)
        fixed: int = field(init=False, default=7)
        made: list[int] = field(init=False, default_factory=list, hash=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", {self.name: self.size})

        @property
        def twice(self) -> int:
            return self.size * 2

    @decorator(frozen=True, slots=True)
    class Derived(Base):
        """More fields after those of the base."""

        color: str = "red"

        def __repr__(self) -> str:
            return "mine"

    @decorator(frozen=True, slots=True)
    class Pair:
        """Can be hashed."""

        left: int
        right: tuple[int, ...] = ()

    return {each.__name__: each for each in (Empty, Base, Derived, Pair)}


def both(use: Callable[[dict[str, Any]], object]) -> tuple[object, object]:
    """What a use gives, or how it fails, with either."""
    outcomes = []
    for classes in (declare(records.dataclass), declare(dataclasses.dataclass)):
        try:
            outcomes.append(use(classes))
        except Exception as error:
            outcomes.append((type(error), str(error)))
    return outcomes[0], outcomes[1]


def assign(target: Any, name: str) -> None:
    setattr(target, name, 1)


USES: dict[str, Callable[[dict[str, Any]], object]] = {
    "repr": lambda c: repr(c["Base"]("a", 2, items=[1])),
    "repr of nothing": lambda c: repr(c["Empty"]()),
    "own repr": lambda c: repr(c["Derived"]("a")),
    "equal": lambda c: c["Base"]("a", 2) == c["Base"]("a", 2, note="other"),
    "not equal": lambda c: c["Base"]("a", 2) == c["Base"]("a", 3),
    "another class": lambda c: c["Base"]("a") == c["Derived"]("a"),
    "empty is empty": lambda c: (c["Empty"]() == c["Empty"](), hash(c["Empty"]()) == hash(c["Empty"]())),
    "hash": lambda c: len({c["Pair"](1), c["Pair"](1), c["Pair"](1, (2,))}),
    "no hash": lambda c: hash(c["Base"]("a")),
    "assign": lambda c: assign(c["Base"]("a"), "size"),
    "delete": lambda c: delattr(c["Base"]("a"), "size"),
    "missing": lambda c: c["Base"](),
    "unexpected": lambda c: c["Base"]("a", colour="red"),
    "not for init": lambda c: c["Base"]("a", fixed=1),
    "too many": lambda c: c["Pair"](1, (), 3),
    "factory": lambda c: c["Base"]("a").items is c["Base"]("a").items,
    "made": lambda c: (c["Base"]("a").made, c["Base"]("a").fixed, c["Base"]("a", 4).derived),
    "property": lambda c: (c["Base"]("a", 4).twice, c["Base"].limit),
    "inherited": lambda c: dataclasses.astuple(c["Derived"]("a", 1, color="blue")),
    "fields": lambda c: [(each.name, each.init, each.repr, each.compare) for each in fields(c["Derived"])],
    "is one": lambda c: dataclasses.is_dataclass(c["Pair"]),
    "asdict": lambda c: dataclasses.asdict(c["Base"]("a", 2)),
    "replace": lambda c: repr(replace(c["Base"]("a", 2), size=3)),
    "replace unknown": lambda c: replace(c["Pair"](1), middle=3),
    "match": lambda c: c["Derived"].__match_args__,
    "slots": lambda c: (c["Base"].__slots__, c["Derived"].__slots__, hasattr(c["Pair"](1), "__dict__")),
    "names": lambda c: (c["Base"].__qualname__, c["Base"].__module__, c["Base"].__doc__),
    "copy": lambda c: copy.deepcopy(c["Base"]("a", 2)) == c["Base"]("a", 2),
}


@pytest.mark.parametrize("uses", [0, 1000], ids=["a few objects", "many objects"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_the_same_as_the_standard_library(
    use: Callable[[dict[str, Any]], object], uses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether objects are filled one by one or by a compiled `__init__`."""
    monkeypatch.setattr(records, "_USES_BEFORE_COMPILING", uses)
    ours, theirs = both(use)
    assert ours == theirs


@records.dataclass(frozen=True, slots=True)
class Sent:
    """At the top of a module, where pickle finds it."""

    name: str
    size: int = 0


def test_pickle() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", 2))) == Sent("a", 2)


def test_other_kinds_are_the_standard_librarys() -> None:
    @records.dataclass(slots=True, order=True)
    class Changing:
        count: int

    changing = Changing(1)
    changing.count = 2
    assert changing > Changing(1)


def test_init_is_compiled_once_there_are_many_objects_to_make() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Late:
        one: int

    before = Late.__init__
    assert Late(1) == Late(one=1)
    assert Late.__init__ is before
    many = [Late(each) for each in range(100)]
    after = Late.__init__
    assert after is not before
    assert [each.one for each in (*many, Late(100))] == list(range(101))
    assert Late.__init__ is after
