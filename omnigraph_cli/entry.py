"""The installed command: what runs before the first slow import, and how the process ends.

Starting takes some tenths of a second, most of it imports. Ctrl-C during an import exits
at once: nothing is open yet that would need cleaning up.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys

from omnigraph_cli.limits import OBJECTS_BEFORE_COLLECTION

_INTERRUPTED = 130


def run() -> None:
    """Run the command line and exit."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    codes: list[int] = []
    # Registered first, so called last: after every exit handler that libraries register.
    atexit.register(_end, codes)
    # Under nohup, or in the background of a script, SIGINT is ignored; it stays ignored.
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
    """Exit without Python's teardown, which takes longer than many commands.

    By now threads are joined, the exit handlers of libraries have run, and `main` has
    flushed the output and checked that it was written.
    """
    if codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(codes[0])


def _leave(*_: object) -> None:
    """Not by an exception: an import may catch it, or print it from a destructor."""
    os._exit(_INTERRUPTED)
