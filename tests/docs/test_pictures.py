"""`query --format dot|html`, as a browser and Graphviz's grammar see it; and the pictures of the pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.read.answer import picture as drawing
from omnigraph_core.read.answer.picture import DrawnEdge, DrawnNode
from omnigraph_core.read.answer.picture_formats import as_dot, as_html
from omnigraph_core.settings import Settings
from tests.support.processes import REPOSITORY, Omnigraph
from tests.support.records import make_people

FRIENDS = """
query friends($who: String) {
  match { $p: Person { name: $who }  $p knows $f  $f worksAt $c }
  return { $f.name as friend }
}
query groups() { match { $p: Person  $p worksAt $c } return { $c.name as firm, count($p) as people } }
query back() { match { $c: Company { name: "Acme" }  $p: Person  $c worksAt $p } return { $p } }
query far() { match { $p: Person { name: "Ann" }  $p knows{1,3} $q } return { $q.name } }
query either() { match { $p: Person { name: "Ann" }  $p <knows> $q } return { $q.name } limit 1 }
query nothing() { match { $p: Person { name: "Nobody" } } return { $p.name } }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    place = make_people(tmp_path_factory.mktemp("pictures") / "g")
    return Graph.open(str(place), Settings(fsync=False))


def person(name: str) -> DrawnNode:
    return DrawnNode("Person", name)


def test_a_match_is_drawn_whole(graph: Graph) -> None:
    picture = graph.at().picture(FRIENDS, name="friends", params={"who": "Ann"})
    acme, zeta = DrawnNode("Company", "Acme"), DrawnNode("Company", "Zeta")
    assert set(picture.nodes) == {person("Ann"), person("Bob"), person("Dee"), acme, zeta}
    assert set(picture.edges) == {
        DrawnEdge(person("Ann"), person("Bob"), "Knows"),
        DrawnEdge(person("Ann"), person("Dee"), "Knows"),
        DrawnEdge(person("Bob"), acme, "WorksAt"),
        DrawnEdge(person("Dee"), zeta, "WorksAt"),
    }


def test_groups_are_drawn_as_what_they_were_made_of(graph: Graph) -> None:
    picture = graph.at().picture(FRIENDS, name="groups")
    assert len(picture.edges) == 3
    assert {node.type_name for node in picture.nodes} == {"Person", "Company"}


def test_directions_paths_and_limits(graph: Graph) -> None:
    back = graph.at().picture(FRIENDS, name="back")
    assert {(edge.source.type_name, edge.target.type_name) for edge in back.edges} == {("Person", "Company")}
    far = graph.at().picture(FRIENDS, name="far")
    assert {edge.label for edge in far.edges} == {"Knows{1,3}"}
    assert all(edge.is_path for edge in far.edges)
    (either,) = graph.at().picture(FRIENDS, name="either").edges
    assert not either.is_directed
    nothing = graph.at().picture(FRIENDS, name="nothing")
    assert (nothing.nodes, "0 nodes, 0 edges" in as_html(nothing)) == ((), True)


def test_one_of_each_is_said_in_the_singular(graph: Graph) -> None:
    picture = graph.at().picture(FRIENDS, name="friends", params={"who": "Ann"})
    node = picture.nodes[0]
    loop = replace(picture.edges[0], source=node, target=node)
    assert "1 node, 1 edge<" in as_html(replace(picture, nodes=(node,), edges=(loop,)))


def test_more_rows_than_are_drawn(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "ROWS_MAX", 1)
    picture = graph.at().picture(FRIENDS, name="friends", params={"who": "Ann"})
    assert picture.is_cut
    assert len(picture.edges) == 2
    assert "more rows than are drawn" in as_html(picture)
    assert "more rows than are drawn" in as_dot(picture)


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_texts_are_texts(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), "node T { k: String @key }", Settings(fsync=False, actor="a"))
    evil = '<script>alert(1)</script>"\\\n\u202e'
    graph.load([{"k": evil}], "append", type="T")
    picture = graph.at().picture("query q() { match { $t: T } return { $t } }")
    seen = Seen()
    seen.feed(as_html(picture))
    assert set(seen.tags) & {"script", "img", "link", "iframe", "object"} == set()
    assert not any(name.startswith("on") or name in ("src", "href") for name in seen.attributes)
    assert '"T/<script>alert(1)</script>\\"\\\\\\\\n\\\\u202e"' in as_dot(picture)


def test_the_same_answer_gives_the_same_bytes(graph: Graph) -> None:
    first, second = (graph.at().picture(FRIENDS, name="groups") for _ in range(2))
    assert as_html(first) == as_html(second)
    assert as_dot(first) == as_dot(second)


def test_the_command(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "q.gq").write_text(FRIENDS)
    asked = ("query", "groups", "--query", "q.gq", "--store", str(graph.location.path))
    dot = omnigraph(*asked, "--format", "dot")
    assert dot.code == 0, dot.err
    assert '"Person/Ann" -> "Company/Acme" [label="WorksAt"];' in dot.out
    assert omnigraph(*asked, "--format", "html").out.startswith("<!DOCTYPE html>")
    refused = omnigraph(*asked, "--format", "html", "--json")
    assert refused.code == 2
    assert "--json and --format html" in refused.err
    assert "dot, html" in omnigraph(*asked, "--format", "png").err


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        warnings.warn("no browser: nobody has looked at the page (apt install chromium)", stacklevel=1)
        pytest.skip("no Chromium here")
    return found


@pytest.mark.slow
def test_a_browser_shows_the_page(graph: Graph, tmp_path: Path) -> None:
    """A real one, without a network: it lays the picture out, and draws more than one colour."""
    page = tmp_path / "page.html"
    page.write_text(as_html(graph.at().picture(FRIENDS, name="groups")), encoding="utf-8")
    shot = tmp_path / "shot.png"
    usual = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [browser(), *usual, "--window-size=900,600", f"--screenshot={shot}", page.as_uri()],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert shot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert shot.stat().st_size > 8000, "an empty page is smaller"


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "docs/pictures").glob("*.svg")), ids=lambda path: path.name
)
def test_pictures_of_the_pages_are_complete_in_themselves(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "<script" not in text
    assert re.findall(r"https?://(?!www\.w3\.org/)[^\s\"')]+", text) in ([], ["https://www.textualize.io"])


def test_the_readme_shows_pictures_that_exist() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:src|srcset)=\"([^\"]+)\"", text)
    assert len(named) >= 3
    assert [each for each in named if not (REPOSITORY / each).is_file()] == []
