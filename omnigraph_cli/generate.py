"""Completion scripts and manual pages, generated from the command tree.

Both are checked in and shipped; a test fails when they do not match the commands.
`make generate` writes them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHELLS = {"bash": "omnigraph.bash", "zsh": "_omnigraph", "fish": "omnigraph.fish"}

_ENVIRONMENT = {
    "OMNIGRAPH_STORE": "the graph, if the command line does not name one",
    "OMNIGRAPH_BRANCH": "the branch, if the command line does not name one",
    "OMNIGRAPH_ACTOR": "the actor of new commits, if --as is not given",
    "OMNIGRAPH_LOCK_TIMEOUT": "seconds to wait for another writer; default 30",
    "OMNIGRAPH_FSYNC": "off for disposable graphs: faster, but a power cut may lose commits",
    "NO_COLOR, FORCE_COLOR": "never or always use colour",
}
_FILES = {
    "omnigraph.toml": "store, branch and actor for its directory and those below",
    "graph.omni": "where init creates a graph if none is named",
}


def completion_script(shell: str) -> str:
    """The script with which a shell asks `omnigraph` for completions."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="omnigraph", complete_var="_OMNIGRAPH_COMPLETE", shell=shell)
    return script.strip() + "\n"


def manual_pages() -> dict[str, str]:
    """File name to content: one page for the program and one per command."""
    from typer.main import get_command

    from omnigraph_cli.tree import build_app

    root = get_command(build_app())
    pages = {"omnigraph.1": _page(["omnigraph"], root, list(_commands(["omnigraph"], root)))}
    for path, leaf in _commands(["omnigraph"], root):
        pages["-".join(path) + ".1"] = _page(path, leaf, [])
    return pages


def _commands(path: list[str], group: Any) -> Iterator[tuple[list[str], Any]]:
    """Every command that can be run, depth first in the order of the help."""
    for name, child in group.commands.items():
        if child.hidden:
            continue
        if hasattr(child, "commands"):
            yield from _commands([*path, name], child)
        else:
            yield [*path, name], child


def _page(path: list[str], command: Any, children: list[tuple[list[str], Any]]) -> str:
    from omnigraph_cli.exits import MEANING
    from omnigraph_core import __version__

    title = "-".join(path)
    summary, _, rest = _plain(command.help or "").partition("\n")
    lines = [
        f'.TH "{title.upper()}" "1" "" "omnigraph {__version__}" "OmniGraph manual"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(summary.strip().rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_roff(' '.join(path))}",
        _roff(" ".join(_synopsis(command))),
        ".SH DESCRIPTION",
        _roff(f"{summary}\n{rest}".strip()),
    ]
    if children:
        lines += [".SH COMMANDS", *_definitions({_joined(p): _first_line(c.help) for p, c in children})]
    lines += [".SH OPTIONS", *_definitions(dict(_options(command)))]
    if command.epilog:
        body = command.epilog.replace("\b\nExamples:\n", "")
        lines += [".SH EXAMPLES", ".nf", _roff(body), ".fi"]
    exit_status = {str(code): meaning for code, meaning in MEANING.items()}
    lines += [".SH EXIT STATUS", *_definitions(exit_status)]
    lines += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT), ".SH FILES", *_definitions(_FILES)]
    return "\n".join(lines) + "\n"


def _joined(path: list[str]) -> str:
    return " ".join(path)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _plain(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text.strip())


def _synopsis(command: Any) -> list[str]:
    if hasattr(command, "commands"):
        return ["COMMAND [OPTIONS]"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    names = [p.metavar or (p.name or "").upper() for p in arguments]
    shown = [name if p.required else f"[{name}]" for p, name in zip(arguments, names, strict=True)]
    return ["[OPTIONS]", *shown]


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.hidden:
            continue
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
        is_flag = getattr(parameter, "is_flag", False)
        yield names if is_flag else f"{names} {parameter.metavar or 'VALUE'}", parameter.help or ""
    yield "-h, --help", "Show this help and exit."


def _definitions(entries: dict[str, str]) -> list[str]:
    return [line for term, text in entries.items() for line in (".TP", f".B {_roff(term)}", _roff(text))]


def _roff(text: str) -> str:
    """Text escaped for roff: hyphens stay as typed, and no line reads as a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in escaped.splitlines())


def write_all(root: Path) -> None:
    """Write `completions/` and `man/` under the repository root; stale pages are removed."""
    completions, manual = root / "completions", root / "man"
    completions.mkdir(exist_ok=True)
    manual.mkdir(exist_ok=True)
    for shell, name in SHELLS.items():
        (completions / name).write_text(completion_script(shell), encoding="utf-8")
    pages = manual_pages()
    for stale in {path.name for path in manual.glob("*.1")} - set(pages):
        (manual / stale).unlink()
    for name, content in pages.items():
        (manual / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
