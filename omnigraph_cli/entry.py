"""The installed command: what runs before the first slow import.

It hands the command to a server that has imported everything, if there is one and the user asked
for that, and otherwise runs it here. Ctrl-C until then ends it at once: nothing is open that would
need cleaning up.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_INTERRUPTED = 130


def run() -> None:
    """Run the command line and exit."""
    # Under nohup, or in the background of a script, SIGINT is ignored; it stays ignored.
    is_interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_interruptible:
        _signal.signal(_signal.SIGINT, leave)
    from omnigraph_cli.warm.client import run_warm

    leaves_server = run_warm()
    from omnigraph_cli import without_docs
    from omnigraph_cli.process import run_here

    without_docs.prefer()
    run_here(leaves_server=leaves_server, is_interruptible=is_interruptible)


def leave(*_: object) -> None:
    """Not by an exception: an import may catch it, or print it from a destructor."""
    os._exit(_INTERRUPTED)
