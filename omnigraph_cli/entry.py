"""The installed command: what runs before the first import that takes time.

Starting takes some tenths of a second, most of it imports. Ctrl-C in the middle of
one leaves at once; nothing is open yet that would have to be put away.
"""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130


def run() -> None:
    """Run the command line and leave the process."""
    # Under nohup, or in the background of a script, interrupts are ignored, and stay so.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        signal.signal(signal.SIGINT, _leave)
    try:
        from omnigraph_cli.main import main

        if is_interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _leave(*_: object) -> None:
    """Not an exception: an import may catch one, or print it from a destructor."""
    os._exit(_INTERRUPTED)
