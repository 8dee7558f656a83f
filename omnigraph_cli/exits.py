"""Exit codes: documented, tested, never changed."""

from __future__ import annotations

from omnigraph_core.errors import ErrorKind

OK = 0
ANSWER_IS_NO = 1
INTERRUPTED = 130
BROKEN_PIPE = 141

BY_KIND: dict[ErrorKind, int] = {
    ErrorKind.USAGE: 2,
    ErrorKind.CONFLICT: 3,
    ErrorKind.PRECONDITION: 4,
    ErrorKind.REFUSED: 5,
    ErrorKind.NOT_FOUND: 6,
    ErrorKind.BAD_DATA: 7,
    ErrorKind.BUSY: 8,
    ErrorKind.LIMIT: 9,
    ErrorKind.INTERNAL: 70,
    ErrorKind.STORAGE: 74,
}

# One line each, for the manual pages and docs/exit-codes.md.
MEANING: dict[int, str] = {
    0: "done",
    1: "the answer is no: lint found errors, diff --exit-code a difference",
    2: "wrong usage: unknown or missing option, missing input file, http(s):// graph",
    3: "conflict: version mismatch, key conflict, something already exists",
    4: "precondition failed: --if-commit named another head",
    5: "refused: reserved name, mixed mutation, out of reach of Spark, or no consent",
    6: "not found: graph, branch, commit, query, type or entity",
    7: "bad data or bad source text",
    8: "busy: lock timeout or too many other writers; retrying is safe",
    9: "limit exceeded: --timeout, --max-rejects, memory or size",
    70: "a bug in omnigraph; the message names a file with the traceback",
    74: "storage: unreachable, denied, full or corrupt",
    130: "interrupted (Ctrl-C)",
    141: "broken pipe: the reader of the output went away",
}
