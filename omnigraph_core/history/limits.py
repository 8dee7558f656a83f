"""Limits of the history, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Eight characters of a ULID tell some million commits apart, and people can type them.
ABBREVIATION_CHARACTERS_MIN = 8

# A branch name has at most 200 characters; the rest is for suffixes. It also bounds the digits of `~N`.
REF_CHARACTERS_MAX = 1_000

# A tag is a file, whose name has at most 255 bytes; `/` takes three of them.
TAG_PATH_CHARACTERS_MAX = 240
