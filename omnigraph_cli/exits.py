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
    1: "the answer is no: lint errors, an unsupported plan, a repair that refused something",
    2: "wrong usage: unknown or missing option, missing input file, http(s):// graph",
    3: "conflict: version mismatch, key conflict, merge conflicts, something exists already",
    4: "--if-commit lost: the branch has another head",
    5: "refused: protected name, unsupported schema change, needs --force or consent",
    6: "not found: graph, branch, commit, query, entity, a version removed by cleanup",
    7: "bad data or bad source text",
    8: "busy: lock timeout or pending recovery; trying again is safe",
    9: "a limit was hit: --timeout, --max-rejects, memory or size",
    70: "a bug; the traceback is in the file the message names",
    74: "storage: unreachable, denied, full or corrupt",
    130: "interrupted (Ctrl-C)",
    141: "the reader of our output went away",
}
