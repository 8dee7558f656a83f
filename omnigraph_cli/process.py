"""The process of a command, from its slow imports to how it ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys

from omnigraph_cli.limits import OBJECTS_BEFORE_COLLECTION
from omnigraph_cli.warm import client

_INTERRUPTED = 130
_codes: list[int] = []
_is_end_registered = False
_leaves_server = False


def register_end() -> None:
    """To be called before libraries register exit handlers: what is registered first is called last."""
    global _is_end_registered
    if not _is_end_registered:
        atexit.register(_end)
        _is_end_registered = True


def run_here(*, leaves_server: bool, is_interruptible: bool) -> None:
    """Run the command line in this process and exit; then leave a server behind for the next one."""
    global _leaves_server
    _leaves_server = leaves_server
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    register_end()
    try:
        from omnigraph_cli.main import main

        if is_interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            _codes.append(leaving.code)
        raise


def _end() -> None:
    """Exit without Python's teardown, which takes longer than many commands.

    By now threads are joined, the exit handlers of libraries have run, and `main` has
    flushed the output and checked that it was written.
    """
    if not _codes:
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if client.reason not in (None, client.GAINS_NOTHING):
        with contextlib.suppress(Exception):
            from omnigraph_cli.warm import starting

            starting.note(client.reason)
            if _leaves_server:
                starting.start_server()
    os._exit(_codes[0])
