"""Schemas that tests of both languages use."""

from __future__ import annotations

S1 = """
node Person {
  name: String @key
  age: I32?
  joined: Date?
  tags: [String]?
}
node Company {
  name: String @key
  size: enum(small, large)?
}
edge Knows: Person -> Person { since: Date? note: String? }
edge WorksAt: Person -> Company @card(0..1)
"""


S2 = """
node Doc {
  slug: String @key
  title: String @index
  body: String @index
  embedding: Vector(4) @index @embed("body")
  rank: F64?
}
node File { path: String @key data: Blob? }
edge Cites: Doc -> Doc { weight: F64? }
"""
