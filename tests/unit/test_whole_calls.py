"""Reading a trace in which the calls of two threads overlap."""

from __future__ import annotations

from tests.support.tracing import whole_calls

OVERLAPPING = """\
11 renameat(AT_FDCWD</w>, "/g/a.tmp", AT_FDCWD</w>, "/g/a" <unfinished ...>
12 fsync(3</g/b>)                    = 0
12 fsync(4</g/c> <unfinished ...>
11 <... renameat resumed>)           = -1 ENOSPC (No space left on device) (INJECTED)
12 +++ killed by SIGKILL +++
"""


def test_a_call_told_in_two_lines_is_one_with_its_file_and_its_result() -> None:
    assert list(whole_calls(OVERLAPPING)) == [
        "12 fsync(3</g/b>)                    = 0",
        '11 renameat(AT_FDCWD</w>, "/g/a.tmp", AT_FDCWD</w>, "/g/a")           '
        "= -1 ENOSPC (No space left on device) (INJECTED)",
        "12 +++ killed by SIGKILL +++",
        "12 fsync(4</g/c>",
    ]
