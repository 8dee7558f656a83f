"""A social network in the shape of LDBC SNB: its schema, and its tables as Parquet.

One number says how many people there are; everything else grows with it, and the same number gives the
same network everywhere. Few people know many, write much and are liked a lot. Whoever knows each other is
stored once, in one direction, as LDBC has it. Comments answer posts or earlier comments, so that there are
threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
  name: String @key
  firstName: String @index
  lastName: String
  gender: enum(female, male)
  birthday: Date
  created: DateTime
  browser: String
  speaks: [String]
}
node City { name: String @key }
node Country { name: String @key }
node Company { name: String @key }
node University { name: String @key }
node TagClass { name: String @key }
node Tag { name: String @key }
node Forum { name: String @key title: String created: DateTime }
node Post {
  name: String @key
  content: String?
  image: String?
  language: String?
  length: I32
  created: DateTime
}
node Comment { name: String @key content: String length: I32 created: DateTime }
edge Knows: Person -> Person { since: DateTime }
edge LivesIn: Person -> City
edge PartOf: City -> Country
edge CompanyIn: Company -> Country
edge StudyAt: Person -> University { year: I32 }
edge WorkAt: Person -> Company { start: I32 }
edge HasInterest: Person -> Tag
edge TagType: Tag -> TagClass
edge SubclassOf: TagClass -> TagClass
edge HasModerator: Forum -> Person
edge HasMember: Forum -> Person { joined: DateTime }
edge ForumTag: Forum -> Tag
edge ContainerOf: Forum -> Post
edge PostCreator: Post -> Person
edge PostTag: Post -> Tag
edge CommentCreator: Comment -> Person
edge CommentTag: Comment -> Tag
edge AnswersPost: Comment -> Post
edge AnswersComment: Comment -> Comment
edge LikesPost: Person -> Post { at: DateTime }
edge LikesComment: Person -> Comment { at: DateTime }
"""

FIRST = ["Ada", "Åsa", "Ben", "Bao", "Chen", "Dana", "Émile", "Eva", "Finn", "Ivan", "Jan", "Karl", "Lei"]
FIRST += [
    "Mia",
    "Nur",
    "Olga",
    "Otto",
    "Priya",
    "Rahul",
    "Sven",
    "Tom",
    "Yang",
    "Zoë",
    "Ярослав",
    "王芳",
    "😀",
]
LAST = ["Ågren", "Berg", "Diaz", "Fischer", "Garcia", "Ito", "Khan", "Kumar", "Novak", "O'Neil", "Šimek"]
BROWSERS = ["Chrome", "Firefox", "Safari", "Opera"]
LANGUAGES = ["ar", "de", "en", "es", "fr", "hi", "zh"]
START_MS = 1_262_304_000_000
DAY_MS = 86_400_000
DAYS = 1_096


def names(kind: str, count: int) -> pa.Array:
    return pa.array([f"{kind}-{number:07d}" for number in range(count)], pa.utf8())


class Network:
    """The network of so many people."""

    def __init__(self, people: int) -> None:
        self.random = np.random.default_rng(people)
        self.ids = {
            "Person": names("person", people),
            "City": names("city", max(4, people // 100)),
            "Country": names("country", max(3, min(111, people // 500))),
            "Company": names("company", max(4, people // 20)),
            "University": names("university", max(4, people // 50)),
            "TagClass": names("class", 15),
            "Tag": names("tag", max(30, min(16_000, people // 4))),
            "Forum": names("forum", max(4, people // 2)),
            "Post": names("post", people * 6),
            "Comment": names("comment", people * 12),
        }
        self.tables: dict[str, pa.Table] = {}
        self._posted = np.sort(self._moments(len(self.ids["Post"])))
        self._commented = np.sort(self._moments(len(self.ids["Comment"])))
        self._people()
        self._places()
        self._forums()
        self._messages()

    # ---- drawing ----

    def _moments(self, count: int) -> Any:
        return START_MS + self.random.integers(0, DAYS * DAY_MS, count)

    def _skewed(self, count: int, size: int) -> Any:
        """Numbers below `size`, the low ones more often."""
        return (self.random.random(count) ** 2 * size).astype(np.int64)

    def _someone(self, count: int) -> Any:
        """People, few of them often; in no order."""
        if not hasattr(self, "_shuffled"):
            self._shuffled = self.random.permutation(len(self.ids["Person"]))
        return self._shuffled[self._skewed(count, len(self._shuffled))]

    def _picked(self, values: list[str], count: int) -> pa.Array:
        return pa.array(values).take(pa.array(self.random.integers(0, len(values), count)))

    def _edges(self, name: str, ends: tuple[str, str], pairs: Any, **properties: Any) -> None:
        """Edges between numbers of nodes; of those between the same two nodes the first."""
        pairs = np.asarray(pairs)
        keys = pairs[0].astype(np.int64) << 32 | pairs[1].astype(np.int64)
        _, first = np.unique(keys, return_index=True)
        first.sort()
        columns = {
            "from": self.ids[ends[0]].take(pa.array(pairs[0][first])),
            "to": self.ids[ends[1]].take(pa.array(pairs[1][first])),
        }
        for key, values in properties.items():
            columns[key] = values.take(pa.array(first))
        self.tables[name] = pa.table(columns)

    def _several(self, count: int, mean: float) -> Any:
        """Each of `count` numbers some times, `mean` on average."""
        return np.repeat(np.arange(count), self.random.poisson(mean, count))

    # ---- what there is ----

    def _people(self) -> None:
        count = len(self.ids["Person"])
        spoken = [self.random.permutation(LANGUAGES)[: 1 + number % 3].tolist() for number in range(97)]
        birthdays = self.random.integers(3_650, 10_950, count).astype(np.int32)
        self.tables["Person"] = pa.table(
            {
                "name": self.ids["Person"],
                "firstName": self._picked(FIRST, count),
                "lastName": self._picked(LAST, count),
                "gender": self._picked(["female", "male"], count),
                "birthday": pa.array(birthdays, pa.date32()),
                "created": _instants(self._moments(count)),
                "browser": self._picked(BROWSERS, count),
                "speaks": pa.array([spoken[number % 97] for number in range(count)], pa.list_(pa.utf8())),
            }
        )
        ends = np.sort(np.stack([self._someone(count * 9), self._someone(count * 9)]), axis=0)
        ends = ends[:, ends[0] != ends[1]]
        turned = self.random.random(ends.shape[1]) < 0.5
        since = _instants(self._moments(ends.shape[1]))
        keys, first = np.unique(ends[0] << 32 | ends[1], return_index=True)
        pairs = np.where(turned[first], [keys & 0xFFFFFFFF, keys >> 32], [keys >> 32, keys & 0xFFFFFFFF])
        self._edges("Knows", ("Person", "Person"), pairs, since=since.take(pa.array(first)))
        interested = self._several(count, 4)
        tags = self._skewed(len(interested), len(self.ids["Tag"]))
        self._edges("HasInterest", ("Person", "Tag"), [interested, tags])
        for name, kind, share, key in (
            ("StudyAt", "University", 0.8, "year"),
            ("WorkAt", "Company", 1.4, "start"),
        ):
            some = self._several(count, share)
            there = self.random.integers(0, len(self.ids[kind]), len(some))
            years = pa.array(self.random.integers(1995, 2013, len(some)), pa.int32())
            self._edges(name, ("Person", kind), [some, there], **{key: years})

    def _places(self) -> None:
        for kind in ("City", "Country", "Company", "University", "TagClass", "Tag"):
            self.tables[kind] = pa.table({"name": self.ids[kind]})
        for name, near, far in (
            ("LivesIn", "Person", "City"),
            ("PartOf", "City", "Country"),
            ("CompanyIn", "Company", "Country"),
            ("TagType", "Tag", "TagClass"),
        ):
            every = np.arange(len(self.ids[near]))
            self._edges(name, (near, far), [every, self._skewed(len(every), len(self.ids[far]))])
        below = np.arange(1, len(self.ids["TagClass"]))
        self._edges("SubclassOf", ("TagClass", "TagClass"), [below, (below - 1) // 2])

    def _forums(self) -> None:
        count = len(self.ids["Forum"])
        created = self._moments(count)
        titles = [f"Group for {tag % 40} in {tag % 7}" for tag in self._skewed(count, 400).tolist()]
        self.tables["Forum"] = pa.table(
            {"name": self.ids["Forum"], "title": titles, "created": _instants(created)}
        )
        every = np.arange(count)
        self._edges("HasModerator", ("Forum", "Person"), [every, self._someone(count)])
        members = self._several(count, 20)
        joined = created[members] + self.random.integers(0, 400 * DAY_MS, len(members))
        people = self._someone(len(members))
        self._edges("HasMember", ("Forum", "Person"), [members, people], joined=_instants(joined))
        tagged = self._several(count, 2)
        self._edges("ForumTag", ("Forum", "Tag"), [tagged, self._skewed(len(tagged), len(self.ids["Tag"]))])

    def _messages(self) -> None:
        posts, comments = len(self.ids["Post"]), len(self.ids["Comment"])
        is_image = self.random.random(posts) < 0.3
        lengths = np.where(is_image, 0, self.random.integers(1, 200, posts)).astype(np.int32)
        texts = [f"About {number % 1_000}: {number % 77}" for number in range(max(posts, comments))]
        language = self._picked(LANGUAGES, posts)
        nothing = pa.nulls(posts, pa.utf8())
        self.tables["Post"] = pa.table(
            {
                "name": self.ids["Post"],
                "content": _either(is_image, nothing, pa.array(texts[:posts])),
                "image": _either(is_image, names("photo", posts), nothing),
                "language": _either(self.random.random(posts) < 0.2, nothing, language),
                "length": lengths,
                "created": _instants(self._posted),
            }
        )
        self.tables["Comment"] = pa.table(
            {
                "name": self.ids["Comment"],
                "content": texts[:comments],
                "length": self.random.integers(1, 120, comments).astype(np.int32),
                "created": _instants(self._commented),
            }
        )
        self._edges(
            "ContainerOf",
            ("Forum", "Post"),
            [self._skewed(posts, len(self.ids["Forum"])), self.random.permutation(posts)],
        )
        for kind, times, tags, likes in (
            ("Post", self._posted, 1.5, 2.0),
            ("Comment", self._commented, 0.5, 1.0),
        ):
            count = len(times)
            self._edges(f"{kind}Creator", (kind, "Person"), [np.arange(count), self._someone(count)])
            tagged = self._several(count, tags)
            about = self._skewed(len(tagged), len(self.ids["Tag"]))
            self._edges(f"{kind}Tag", (kind, "Tag"), [tagged, about])
            liked = self._several(count, likes)
            at = _instants(times[liked] + self.random.integers(1, 30 * DAY_MS, len(liked)))
            self._edges(f"Likes{kind}", ("Person", kind), [self._someone(len(liked)), liked], at=at)
        self._answers(comments)

    def _answers(self, comments: int) -> None:
        """Every comment answers a post or a comment that was there before it."""
        every = np.arange(comments)
        before = np.searchsorted(self._posted, self._commented)
        to_post = (self.random.random(comments) < 0.5) | (every == 0)
        share = self.random.random(comments)
        posts = every[to_post & (before > 0)]
        answered = (share[posts] * before[posts]).astype(np.int64)
        self._edges("AnswersPost", ("Comment", "Post"), [posts, answered])
        others = every[~to_post]
        earlier = (share[others] * others).astype(np.int64)
        self._edges("AnswersComment", ("Comment", "Comment"), [others, earlier])

    # ---- what is asked ----

    def keys(self, rounds: int) -> dict[str, list[Any]]:
        """For every parameter of a question a value a round."""
        known = self.tables["Knows"]
        friends = known.column("from").take(pa.array(self.random.integers(0, known.num_rows, rounds)))
        asked = {
            "person": friends.to_pylist(),
            "first": self._picked(FIRST, rounds).to_pylist(),
            "language": self._picked(LANGUAGES, rounds).to_pylist(),
            "year": self.random.integers(2000, 2013, rounds).tolist(),
        }
        for key, kind in (
            ("country", "Country"),
            ("tag", "Tag"),
            ("post", "Post"),
            ("comment", "Comment"),
            ("forum", "Forum"),
        ):
            chosen = self._skewed(rounds, len(self.ids[kind]))
            asked[key] = self.ids[kind].take(pa.array(chosen)).to_pylist()
        above = self._skewed(rounds, 4)  # classes that have others below them
        asked["kind"] = self.ids["TagClass"].take(pa.array(above)).to_pylist()
        begins = START_MS + DAY_MS * self.random.integers(200, DAYS - 300, rounds)
        for key, days in (("since", 0), ("until", 120)):
            asked[key] = [_text(moment) for moment in (begins + days * DAY_MS).tolist()]
        return asked


def write(folder: Path, network: Network) -> None:
    """One file a type."""
    for name, table in network.tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _instants(milliseconds: Any) -> pa.Array:
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def _either(mask: Any, first: pa.Array, second: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.if_else(pa.array(mask), first, second)


def _text(milliseconds: int) -> str:
    return str(np.datetime64(milliseconds, "ms")) + "Z"
