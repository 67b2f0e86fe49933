"""The end of the interpreter: daemon threads run on while exit handlers close the devices.

Python stops such a thread without a word when it next wants to run. One that uses a closed device
just before has a UseAfterFree, which is no mistake of the program's then.
"""

from __future__ import annotations

import threading

from drivers.base.errors import UseAfterFree


class _Quiet:
    """threading.excepthook, without the tracebacks of such threads."""

    def __init__(self) -> None:
        self.before = threading.excepthook

    def __call__(self, args: threading.ExceptHookArgs) -> None:
        thread = args.thread
        if thread is None or not thread.daemon or not isinstance(args.exc_value, UseAfterFree):
            self.before(args)


def end_quietly() -> None:
    """For exit handlers, before they close devices. A second call does nothing."""
    if not isinstance(threading.excepthook, _Quiet):
        threading.excepthook = _Quiet()
