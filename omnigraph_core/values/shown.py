"""Values as messages name them: one line that can be printed anywhere, the beginning if it is long."""

from __future__ import annotations

_SHOWN_CHARACTERS_MAX = 60
_JOINERS = "\u200c\u200d"


def shown(value: object) -> str:
    """A value as messages show it: its JSON kind and, for scalars, the beginning of the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"string '{clipped(value)}'"
    if isinstance(value, int):
        return f"integer {clipped(integer_text(value))}"
    if isinstance(value, float):
        return f"number {value!r}"
    return "array" if isinstance(value, list) else "object"


def clipped(text: str) -> str:
    """Text for a message: one printable line, shortened if it is long."""
    safe = one_line(text[:_SHOWN_CHARACTERS_MAX])
    return safe if len(text) <= _SHOWN_CHARACTERS_MAX else safe + "…"


def one_line(text: str) -> str:
    """Text that stays on its line, moves no cursor and hides nothing: what would is escaped.

    Spaces of other widths stay, and the joiners that scripts and emoji are written with.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_visible(each) else _escaped(each) for each in text)


def _is_visible(character: str) -> bool:
    if character.isprintable() or character in _JOINERS:
        return True
    from unicodedata import category

    return category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def integer_text(value: int) -> str:
    """Decimal digits; Python refuses to print very long ones."""
    return str(value) if value.bit_length() < 1024 else "of hundreds of digits"


def number_text(value: int | float) -> str:
    if isinstance(value, float):
        return repr(value)
    text = integer_text(value)
    return clipped(text) if text[-1].isdigit() else f"an integer {text}"
