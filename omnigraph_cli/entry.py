"""The installed command: what runs before the first import that takes time.

Starting takes some tenths of a second, most of it imports. Ctrl-C in the middle of
one leaves at once; nothing is open yet that would have to be put away.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

_INTERRUPTED = 130

# Imports make objects by the hundred thousand and no garbage; looking for some after every 700,
# as Python does, takes a tenth of the start.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000


def run() -> None:
    """Run the command line and leave the process."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
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
    finally:
        # Everything is closed and flushed; the interpreter need not sort it all out once more.
        gc.freeze()


def _leave(*_: object) -> None:
    """Not an exception: an import may catch one, or print it from a destructor."""
    os._exit(_INTERRUPTED)
