"""The pages of docs/: where they are, what they are called, and what they say.

A wheel has them beside this module (pyproject.toml puts them there); a checkout has them in its
docs/. Only the text is used: no page is parsed before somebody asks for it.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from omnigraph_core.errors import NotFoundError

_HERE = Path(__file__).resolve().parent


class PageNotFound(NotFoundError):
    """There is no page of this name."""

    def __init__(self, topic: str, known: list[str]) -> None:
        near = difflib.get_close_matches(topic, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"pages are: {', '.join(known)}"
        super().__init__(f"there is no page '{topic}'", hint=hint)
        self.topic = topic


def folder() -> Path:
    """The directory of the pages: installed, or of the checkout this module is in."""
    installed = _HERE / "docs"
    return installed if installed.is_dir() else _HERE.parent / "docs"


def topics() -> list[str]:
    """The names of all pages, by name: `queries` is docs/queries.md."""
    return sorted(path.stem for path in folder().glob("*.md"))


def title(topic: str) -> str:
    """The heading of a page."""
    return text(topic).partition("\n")[0].removeprefix("# ").strip()


def text(topic: str) -> str:
    """A page as Markdown; raises PageNotFound."""
    known = topics()
    if topic not in known:
        raise PageNotFound(topic, known)
    return (folder() / f"{topic}.md").read_text(encoding="utf-8")
