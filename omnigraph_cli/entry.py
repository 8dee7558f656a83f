"""The installed command: what runs before the first import that takes time, and what ends it.

Starting takes some tenths of a second, most of it imports. Ctrl-C in the middle of
one leaves at once; nothing is open yet that would have to be put away.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys

_INTERRUPTED = 130

# Imports make objects by the hundred thousand and no garbage; looking for some after every 700,
# as Python does, takes a tenth of the start. A command that reads ends before it has made so many.
_OBJECTS_BEFORE_COLLECTION = 300_000


def run() -> None:
    """Run the command line and leave the process."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    codes: list[int] = []
    # Registered before anything else, so called after everything that others register.
    atexit.register(_end, codes)
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
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            codes.append(leaving.code)
        raise


def _end(codes: list[int]) -> None:
    """End the process without taking it apart, which takes longer than many a command.

    Threads have been joined by now, and what libraries want done at the end is done. What
    there was to say is said, and main has looked whether it arrived.
    """
    if codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(codes[0])


def _leave(*_: object) -> None:
    """Not an exception: an import may catch one, or print it from a destructor."""
    os._exit(_INTERRUPTED)
