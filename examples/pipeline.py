"""From raw files to a graph: read, clean, write a branch, check it, merge it.

    omnigraph init --schema social.pg graph.omni
    spark-submit examples/pipeline.py raw/ graph.omni

`raw/people` and `raw/follows` are Parquet. The schema of the graph is at the end of this file.
"""

import sys

from pyspark.sql import SparkSession

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import load_settings
from omnigraph_core.spark.pipeline import graph_write
from omnigraph_core.spark.source import OmnigraphSource

BRANCH = "nightly"

LONELY = """
query lonely() {
  match { $p: Person not { $p follows $q } }
  return { $p.email }
}
"""


def run(raw: str, place: str) -> int:
    """Returns how many people the graph has afterwards."""
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(OmnigraphSource)

    # Clean: one row per person, e-mail addresses in lower case, nobody who follows themselves.
    people = (
        spark.read.parquet(f"{raw}/people")
        .selectExpr("lower(trim(email)) as email", "trim(name) as name", "cast(born as int) as born")
        .filter("email like '%@%'")
        .dropDuplicates(["email"])
    )
    follows = (
        spark.read.parquet(f"{raw}/follows")
        .selectExpr("lower(trim(who)) as `from`", "lower(trim(whom)) as `to`")
        .filter("`from` <> `to`")
        .join(people.selectExpr("email as `from`"), "from", "semi")
        .join(people.selectExpr("email as `to`"), "to", "semi")
        .dropDuplicates()
    )

    # Nodes and edges are one commit on a branch that is made for it: all of it, or nothing.
    with graph_write(spark, place, branch=BRANCH, source="main", mode="merge", message="nightly") as w:
        w.add("Person", people)
        w.add("Follows", follows)

    # Check what was written before anybody sees it.
    written = spark.read.format("omnigraph").option("branch", BRANCH)
    total = written.option("type", "Person").load(place).count()
    lonely = spark.read.format("omnigraph").option("branch", BRANCH).option("query", LONELY).load(place)
    if lonely.count() > total / 2:
        raise SystemExit(f"most people follow nobody; branch '{BRANCH}' was not merged")

    graph = Graph.open(place, load_settings(), OpenMode.READ_WRITE)
    graph.merge(BRANCH, into="main", message="nightly")
    graph.delete_branch(BRANCH)
    return total


SCHEMA = """
node Person { email: String @key name: String born: I32? }
edge Follows: Person -> Person { @unique(src, dst) }
"""

if __name__ == "__main__":
    print(run(sys.argv[1], sys.argv[2]), "people")
