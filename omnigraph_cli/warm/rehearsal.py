"""What every command does before it opens a graph, done once with nothing at stake.

Much is made when it is first used: patterns, tables of kinds, specialised bytecode, modules that a
function imports. A rehearsal makes it before there is a command that would wait for it. It reads no
file and no variable, prints nothing, and keeps nothing but that.
"""

from __future__ import annotations

from omnigraph_cli.command_line import spelled_out
from omnigraph_cli.tree import PROGRAM, command_for
from omnigraph_core.query.prepared import QueryRequest
from omnigraph_core.schema import compile_schema

_SCHEMA = """\
node Person {
  name: String @key
  age: I32?
  born: Date?
}
edge Knows: Person -> Person { since: Date? }
"""
_READ = """\
query q($name: String) {
  match { $p: Person { name: $name } $p knows $q $q.age > 1 }
  return { $q.name as name, $q.age } order { name } limit 3
}
"""
_WRITE = 'query q() { update Person set { age: 31 } where name = "p" }'
_LINE = ("query", "--store", "g", "-e", "no", "--json")


def rehearse() -> None:
    schema = compile_schema(_SCHEMA)
    QueryRequest(_READ, params={"name": "p"}).prepare(schema)
    QueryRequest(_WRITE).prepare(schema)
    name, *options = arguments = spelled_out(_LINE)
    group = command_for(arguments)
    with group.make_context(PROGRAM, list(arguments)) as context:
        command = group.get_command(context, name)
        command.make_context(name, options, parent=context).close()
