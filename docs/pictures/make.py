"""Makes the pictures of this directory from real output.

    .venv/bin/python docs/pictures/make.py

session-light.svg and session-dark.svg show a terminal session, commit.svg one commit over many tables, and
matched.png (where there is a Chromium) what `query --format html` makes of a match. Ids and times are those
of the run: make the pictures anew when what they show has changed.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

import omnigraph_core as og  # noqa: E402
from omnigraph_core.manifest.snapshot import Snapshot  # noqa: E402
from omnigraph_core.read.answer.picture_formats import as_html  # noqa: E402
from tests.support import transcripts  # noqa: E402

SESSION = """\
<!-- setup
cat > people.pg <<'END'
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company @card(0..1)
END
cat > people.jsonl <<'END'
{"type": "Person", "data": {"name": "Ann", "age": 30}}
{"type": "Person", "data": {"name": "Bob", "age": 25}}
{"type": "Company", "data": {"name": "Acme"}}
{"edge": "Knows", "from": "Ann", "to": "Bob"}
{"edge": "WorksAt", "from": "Ann", "to": "Acme"}
END
echo 'query set($age: I32) { update Person set { age: $age } where name = "Ann" }' > set.gq
omnigraph init --schema people.pg
export OMNIGRAPH_ACTOR=ann
-->

    $ omnigraph load --data people.jsonl --mode append --quiet --message "first people"
    $ omnigraph query -e 'query q() { match { $p: Person $p worksAt $c } return { $p.name, $c.name } }'
    $ omnigraph branch create review
    $ omnigraph change set --query set.gq --param age=31 --branch review --message "a birthday"
    $ omnigraph change set --query set.gq --param age=13 --message "a mistake"
    $ omnigraph branch merge review
    $ omnigraph branch merge review --strategy theirs --message "reviewed"
    $ omnigraph commit list --graph
    $ omnigraph blame Person/Ann
"""

LIGHT = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (130, 80, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (110, 119, 129),
    ],
    [
        (87, 96, 106),
        (164, 14, 38),
        (26, 127, 55),
        (99, 60, 1),
        (33, 139, 255),
        (164, 117, 249),
        (49, 146, 170),
        (140, 149, 159),
    ],
)


def session(theme: TerminalTheme, steps: list[tuple[str, str]]) -> str:
    console = Console(
        record=True, width=104, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for command, printed in steps:
        console.print(Text.assemble(("$ ", "bold green"), (command.rstrip(), "bold")), soft_wrap=False)
        if printed.strip():
            console.print(Text.from_ansi(printed.rstrip("\n")))
    svg = console.export_svg(title="omnigraph", theme=theme)
    # Nothing is loaded from elsewhere: the fonts of the reader will do.
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def commit(folder: Path) -> str:
    """The tables of a graph before and after one load, with the versions that `snapshot` names."""
    schema = """
    node Person { name: String @key }
    node Company { name: String @key }
    edge Knows: Person -> Person
    edge WorksAt: Person -> Company
    """
    with og.init(folder / "g", schema, actor="ann", settings=og.Settings(fsync=False)) as graph:
        before = graph.snapshot()
        graph.load(
            {
                "Person": [{"name": "Ann"}, {"name": "Bob"}],
                "Company": [{"name": "Acme"}],
                "WorksAt": [{"from": "Ann", "to": "Acme"}],
            },
            "append",
        )
        after = graph.snapshot()
    return _drawn(before, after)


def _drawn(before: Snapshot, after: Snapshot) -> str:
    rows, y = [], 96
    keys = sorted(after.tables)
    for number, key in enumerate(keys):
        top = y + number * 52
        old, new = before.entry(key), after.entry(key)
        moved = new.table_version != old.table_version
        mark = f"{new.row_count - old.row_count:+} rows" if moved else "as it was"
        rows += [
            f'<rect x="24" y="{top}" width="170" height="36" rx="6" class="table"/>',
            f'<text x="36" y="{top + 23}">{escape(key)}</text>',
            f'<text x="250" y="{top + 23}" class="v">version {old.table_version}</text>',
            f'<path d="M340 {top + 18}h90" class="{"moved" if moved else "same"}"/>',
            f'<text x="446" y="{top + 23}" class="v">version {new.table_version}</text>',
            f'<text x="530" y="{top + 23}" class="small">{mark}</text>',
            f'<path d="M620 {top + 18}h44" class="{"moved" if moved else "same"}"/>',
        ]
    bottom = y + len(keys) * 52
    middle = (y + bottom - 16) // 2
    rows += [
        f'<path d="M664 {y}v{bottom - y - 16}" class="bar"/>',
        f'<path d="M664 {middle}h32" class="moved"/>',
        f'<rect x="698" y="{middle - 34}" width="178" height="68" rx="6" class="manifest"/>',
        f'<text x="712" y="{middle - 12}" class="b">__manifest</text>',
        f'<text x="712" y="{middle + 6}">version {before.manifest_version} → {after.manifest_version}</text>',
        f'<text x="712" y="{middle + 23}" class="small">one row: the head</text>',
    ]
    for x, text in (
        (24, "tables"),
        (250, "before"),
        (340, "1 stage files"),
        (446, "2 commit each"),
        (698, "3 publish once"),
    ):
        rows.append(f'<text x="{x}" y="70" class="small">{text}</text>')
    rows.append(
        '<text x="24" y="34" class="b">One commit over many tables: readers see all of it, or nothing</text>'
    )
    note = (
        "Killed before 3, the next writer reads the record in __recovery/ and finishes it, or takes it back."
    )
    rows.append(f'<text x="24" y="{bottom + 20}" class="small">{note}</text>')
    return _SVG.format(height=bottom + 40, rows="\n".join(rows))


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" role="img">
<style>
text {{ font: 14px ui-monospace, monospace; fill: #24292f }} .b {{ font-weight: bold }}
.small {{ font-size: 12px; fill: #57606a }} .v {{ fill: #24292f }}
rect {{ fill: #f6f8fa; stroke: #d0d7de }} .manifest {{ fill: #ddf4ff; stroke: #0969da }}
path {{ fill: none; stroke-width: 2 }} .moved {{ stroke: #0969da }}
.same {{ stroke: #d0d7de; stroke-dasharray: 4 4 }}
.bar {{ stroke: #0969da; stroke-width: 3 }} .paper {{ fill: #fff; stroke: none }}
@media (prefers-color-scheme: dark) {{
text, .v {{ fill: #e6edf3 }} .small {{ fill: #9198a1 }} rect {{ fill: #161b22; stroke: #30363d }}
.manifest {{ fill: #0c2d6b; stroke: #4493f8 }} .moved, .bar {{ stroke: #4493f8 }} .same {{ stroke: #30363d }}
.paper {{ fill: #0d1117 }}
}}
</style>
<rect x="0" y="0" width="900" height="{height}" class="paper"/>
{rows}
</svg>
"""


def matched(folder: Path) -> None:
    """A screenshot of the page that `query --format html` writes."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.stderr.write("no chromium: matched.png stays as it is\n")
        return
    schema = "node Person { name: String @key } node Team { name: String @key }"
    schema += " edge Knows: Person -> Person edge In: Person -> Team"
    names = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jane"]
    with og.init(folder / "m", schema, settings=og.Settings(fsync=False, actor="ann")) as graph:
        graph.load(
            {
                "Person": [{"name": name} for name in names],
                "Team": [{"name": "red"}, {"name": "blue"}, {"name": "green"}],
                "In": [{"from": name, "to": ("red", "blue", "green")[i % 3]} for i, name in enumerate(names)],
                "Knows": [{"from": names[i], "to": names[(i * 3 + 1) % 10]} for i in range(10)],
            },
            "append",
        )
        query = "query teams() { match { $p: Person  $p knows $q  $p in $t } return { $p, $q, $t } }"
        (folder / "matched.html").write_text(as_html(graph.at().picture(query)), encoding="utf-8")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    shot = [f"--screenshot={HERE / 'matched.png'}", "--window-size=900,640"]
    page = (folder / "matched.html").as_uri()
    subprocess.run([browser, *quiet, *shot, page], check=True, capture_output=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ann").mkdir()
        ran = transcripts.run(SESSION, folder / "ann", folder, TERM="xterm-256color", FORCE_COLOR="1")
        steps = [(step.command, printed) for step, printed in ran]
        (HERE / "session-light.svg").write_text(session(LIGHT, steps), encoding="utf-8")
        (HERE / "session-dark.svg").write_text(session(MONOKAI, steps), encoding="utf-8")
        (HERE / "commit.svg").write_text(commit(folder), encoding="utf-8")
        matched(folder)


if __name__ == "__main__":
    main()
