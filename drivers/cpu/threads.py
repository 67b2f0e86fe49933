"""Starting a thread of the CPU device."""

from __future__ import annotations

from threading import Thread

from drivers.base.errors import DeviceError


def start_thread(thread: Thread) -> None:
    """Start it. Raises: DeviceError when the system has no room for one more thread."""
    try:
        thread.start()
    except RuntimeError as error:
        raise DeviceError(
            f"thread {thread.name!r} cannot be started: {error}",
            hint="close other programs, raise the limit (ulimit -u), or set CPU_THREADS=1",
        ) from error
