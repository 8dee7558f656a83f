"""What a page says of a terminal: found in it, run for real, compared, and written anew.

A block with a line that begins with `$ ` is a transcript: commands, each with what it prints. The
commands of a page are run in order by one shell in one directory, on a terminal of 100 columns;
`echo $?` is the exit code of the command before. What differs from run to run (ids, times, sizes of
files, the directory) is not compared. The line that names the graph before every write is left out.

- A fenced block that begins with a comment of a file's name (`// reads.gq`) is that file.
- `<!-- setup` … `-->` holds commands that are run where they stand and are not shown.
- A block whose first line is `# not run: REASON` is not run.

    python -m tests.support.transcripts [PAGE…]     write what the commands print today into the pages
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment

HOME = "/home/ann"
NOT_RUN = "# not run: "
_MARK = "\x1e"
_COLUMNS = 100
_BLOCK = re.compile(r"(?:^(?:    [^\n]*|[ \t]*)\n)+|^```\w*\n.*?^```\n", re.MULTILINE | re.DOTALL)
_SETUP = re.compile(r"^<!-- setup\n(.*?)^-->\n", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```\w+\n((?://|#) ([\w.-]+\.\w+)\n.*?)^```\n", re.MULTILINE | re.DOTALL)
_VARYING = [
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b01[0-9A-HJKMNP-TV-Z]{4,}…"), "ID"),
    (re.compile(r"(?<![\w.-])[0-9A-HJKMNP-TV-Z]{8}(?![\w.-])"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b"), "HEX"),
    (re.compile(r"\b[\d.,]+ (bytes|B|KiB|MiB|GiB)\b"), r"N \1"),
    (re.compile(r"\b[\d.,]+ (ms|s|seconds?|minutes?)\b"), "N s"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"[-─]{3,}"), "---"),
    (re.compile(r"\s+"), " "),
]


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what it prints; where in the page that stands (None: it is not shown)."""

    command: str
    printed: str = ""
    place: tuple[int, int] | None = None
    indent: str = ""


def steps(page: str) -> list[Step]:
    """Everything of a page that is to be run, in the order of the page."""
    found = [(match.start(), [Step(match[1])]) for match in _SETUP.finditer(page)]
    for match in _FILE.finditer(page):
        found.append((match.start(), [Step(f"cat > {match[2]} <<'END-OF-FILE'\n{match[1]}END-OF-FILE\n")]))
    for match in _BLOCK.finditer(page):
        block = match[0]
        if re.search(r"^( {4})?\$ ", block, re.MULTILINE) and not block.strip("`\n ").startswith(NOT_RUN):
            found.append((match.start(), list(_shown(block, match.start()))))
    return [step for _, each in sorted(found, key=lambda pair: pair[0]) for step in each]


def _shown(block: str, start: int) -> Iterator[Step]:
    indent = "" if block.startswith("```") else "    "
    current: Step | None = None
    position = start
    for line in block.splitlines(keepends=True):
        text = line.removeprefix(indent)
        begin, position = position, position + len(line)
        if text.startswith("$ "):
            if current is not None:
                yield current
            current = Step(text[2:], place=(position, position), indent=indent)
        elif current is not None and text.startswith("> ") and not current.printed:
            current = replace(current, command=current.command + text[2:], place=(position, position))
        elif current is not None and line.startswith("```"):
            break
        elif current is not None and text.strip():
            assert current.place is not None
            blank = page_lines_between(block, current.place[1] - start, begin - start)
            current = replace(
                current, printed=current.printed + blank + text, place=(current.place[0], position)
            )
    if current is not None:
        yield current


def page_lines_between(block: str, begin: int, end: int) -> str:
    """Blank lines inside what a command prints; those after it are not its own."""
    return "\n" * block[begin:end].count("\n")


def run(page: str, directory: Path, runtime: Path, **environment: str) -> list[tuple[Step, str]]:
    """Every shown step with what it printed now."""
    todo = steps(page)
    lines = [f"cd {directory}"]
    for step in todo:
        lines += [step.command.rstrip("\n"), f"__code=$?; printf '{_MARK}'; (exit $__code)"]
    script = directory.parent / f"{directory.name}.sh"
    script.write_text("\n".join(lines) + "\n")
    screens = _on_a_terminal(script, runtime, environment).split(_MARK)
    assert len(screens) == len(todo) + 1, f"the shell ended early: {screens[-1]}"
    printed = [_as_shown(each, directory) for each in screens]
    return [(step, text) for step, text in zip(todo, printed, strict=False) if step.place is not None]


def _as_shown(screen: str, directory: Path) -> str:
    """Without the line that names the graph before every write, and with a shell's words for a kill."""
    text = re.sub(r"^omnigraph [\w ]+ → .* \(direct, local\)\n", "", screen, flags=re.MULTILINE)
    text = re.sub(r"^.*: line \d+: +\d+ Killed.*$", "Killed", text, flags=re.MULTILINE)
    return text.replace(str(directory), HOME)


def _on_a_terminal(script: Path, runtime: Path, more: dict[str, str]) -> str:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 50, _COLUMNS, 0, 0))
    usual = {
        "PATH": f"{OMNIGRAPH.parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "PAGER": "cat",
        "OMNIGRAPH_ACTOR": "ann",
        "OMNIGRAPH_WARM": "2m",
        "XDG_RUNTIME_DIR": str(runtime),
        "XDG_CONFIG_HOME": str(runtime),
        "HOME": str(runtime),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "ORIGINALS": str(REPOSITORY / "tests/originals"),
    }
    environment = clean_environment(**{**usual, **more})
    with subprocess.Popen(
        ["bash", "--norc", str(script)],
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as shell:
        os.close(slave)
        screen = b"".join(iter(lambda: _read(master), b""))
        shell.wait()
    os.close(master)
    text = screen.decode().replace("\r\n", "\n")
    return text if "FORCE_COLOR" in more else re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:
        return b""


def comparable(text: str) -> str:
    """Without what differs from run to run. Of a line that is drawn again, the last state counts."""
    text = "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))
    for varying, instead in _VARYING:
        text = varying.sub(instead, text)
    return text.strip()


def renewed(page: str, ran: list[tuple[Step, str]]) -> str:
    """The page with what was printed now, where that differs in more than it may."""
    for step, printed in reversed(ran):
        if step.place is None or comparable(step.printed) == comparable(printed):
            continue
        lines = [line.rpartition("\r")[2].rstrip() for line in printed.strip("\n").split("\n")]
        text = "".join(f"{step.indent}{line}".rstrip() + "\n" for line in lines)
        page = page[: step.place[0]] + text + page[step.place[1] :]
    return page


def pages() -> list[Path]:
    """The pages with transcripts."""
    every = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    return [each for each in every if any(step.place for step in steps(each.read_text(encoding="utf-8")))]


def _main() -> None:
    named = [Path(each).resolve() for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        for page in named or pages():
            directory = Path(folder) / page.stem
            directory.mkdir()
            before = page.read_text(encoding="utf-8")
            after = renewed(before, run(before, directory, Path(folder)))
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.name}: {'renewed' if after != before else 'as it is'}\n")
        environment = clean_environment(XDG_RUNTIME_DIR=folder)
        subprocess.run([OMNIGRAPH, "warm", "stop"], env=environment, capture_output=True, check=False)


if __name__ == "__main__":
    _main()
