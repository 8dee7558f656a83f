"""Which old thing each new one is: by its name, else by `@rename_from`.

Used for the types of one kind and for the properties of one type. Everything moves at once. A
name may be handed on: body to x while txt becomes body. What could mean two things is refused,
never guessed, for a wrong guess shows one column's values under another's name.

A hint may stay in the file. So a hint on a name that already exists counts only if that name's
own column leaves; and hints that run in a circle are refused, because applying the same file
again would turn the circle once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of every name.

    `origins` has the old name of each new one, None for what is added. `refused` has the reason
    for each new name whose hint cannot be followed; such a name is in neither. `dropped` is in
    the order of the old names, and without those a refused hint speaks of.
    """

    origins: Mapping[str, str | None]
    refused: Mapping[str, str]
    dropped: tuple[str, ...]
    renames: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        renames = {old: new for new, old in self.origins.items() if old not in (None, new)}
        object.__setattr__(self, "renames", renames)

    def now(self, old: str) -> str:
        """What an old name is called now; unchanged if it was dropped or refused."""
        return self.renames.get(old, old)


def match(old: Sequence[str], hints: Mapping[str, str | None], noun: str) -> Matching:
    """Match new names, each with its hint, to the old ones; `noun` is how messages call a thing."""
    return _Match(old, hints, noun).result()


class _Match:
    """The claims on old names, made in three rounds: new names, names handed on, names that stay."""

    def __init__(self, old: Sequence[str], hints: Mapping[str, str | None], noun: str) -> None:
        self._names = old
        self._old = frozenset(old)
        self._hints = hints
        self._noun = noun
        self._claims: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._spoken_of: set[str] = set()

    def result(self) -> Matching:
        for name in self._hints:
            if name not in self._old:
                self._claim(name)
        handed_on = [name for name in self._hints if name in self._claims]
        for name in handed_on:
            self._take_over(name, handed_on)
        for name in self._hints:
            if name in self._old and name not in self._claims:
                self._stay(name)
        taken = {new: old for old, new in self._claims.items()}
        origins: dict[str, str | None] = {}
        for name in self._hints:
            if name not in self._refused:
                stays = name in self._old and name not in self._claims
                origins[name] = name if stays else taken.get(name)
        gone = (n for n in self._names if n not in self._hints and n not in self._claims)
        return Matching(origins, self._refused, tuple(n for n in gone if n not in self._spoken_of))

    def _claim(self, name: str) -> None:
        """A new name takes the column its hint names, even from a name that goes on existing."""
        hint = self._hints[name]
        if hint is None:
            return
        if hint not in self._old:
            self._refused[name] = f"{_said(hint)} names no {self._noun} of the accepted schema"
        elif hint in self._claims:
            self._refused[name] = (
                f"{_said(hint)} is claimed by '{self._claims[hint]}' too; one {self._noun} has one new name"
            )
        else:
            self._claims[hint] = name

    def _take_over(self, name: str, handed_on: list[str]) -> None:
        """A name whose own column left is like a new one, but its hint may be an old story."""
        hint = self._hints[name]
        if hint is not None and hint in self._old and hint not in self._claims and not self._leaves(hint):
            self._refused[name] = (
                f"{_said(hint)} names a {self._noun} that stays, while '{name}' itself becomes "
                f"'{self._claims[name]}'; remove the hint to add a new '{name}'"
            )
            return
        self._claim(name)
        if hint is not None and self._claims.get(hint) == name and hint in self._hints:
            handed_on.append(hint)

    def _leaves(self, name: str) -> bool:
        """Will the column of this name be free? At once, or at the end of a chain of hints."""
        seen: set[str] = set()
        while name in self._hints:
            hint = self._hints[name]
            if hint is None or hint not in self._old or hint in self._claims or hint in seen:
                return False
            seen.add(hint)
            name = hint
        return True

    def _stay(self, name: str) -> None:
        hint = self._hints[name]
        if hint is None or hint == name or hint not in self._old:
            return
        if hint not in self._hints and hint not in self._claims:
            self._spoken_of.add(hint)
            self._refused[name] = (
                f"{_said(hint)}: both '{hint}' and '{name}' exist and '{hint}' leaves; "
                f"drop '{name}' first, or remove the hint to drop '{hint}'"
            )
        elif self._in_a_circle(name):
            self._refused[name] = f"{_said(hint)}: the hints run in a circle; rename in two steps"

    def _in_a_circle(self, start: str) -> bool:
        seen: set[str] = set()
        name: str | None = start
        while name is not None and name not in seen and name not in self._claims:
            seen.add(name)
            name = self._hints.get(name)
            if name == start:
                return True
        return False


def _said(hint: str) -> str:
    return f'@rename_from("{hint}")'
