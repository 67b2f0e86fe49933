"""The primary context of a device, current on a thread for the time of a call.

It is the context that CUDA's runtime uses, so that other libraries of the process share memory and
streams with this driver. What was current on the thread before is current again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import TracebackType

from drivers.base.errors import DeviceGone, Unsupported
from drivers.cuda.api import Api, Words


class Context:
    """One reference to a primary context."""

    def __init__(self, api: Api, ordinal: int) -> None:
        self._api, self._ordinal, self._popped = api, ordinal, Words()
        self._push = api.functions["cuCtxPushCurrent_v2"]
        self._pop = api.functions["cuCtxPopCurrent_v2"]
        self.handle = api.make("cuDevicePrimaryCtxRetain", ordinal)

    def push(self) -> None:
        """Make it current. Raises: DeviceGone."""
        code = self._push(self.handle)
        if code:
            self._api.fail("cuCtxPushCurrent_v2", code)

    def pop(self) -> None:
        """What was current before is current again."""
        code = self._pop(self._popped.at)
        if code:
            self._api.fail("cuCtxPopCurrent_v2", code)

    def release(self) -> None:
        """Give the reference back. Other libraries of the process may have some, too."""
        self._api.do("cuDevicePrimaryCtxRelease_v2", self._ordinal)


class Working:
    """The lock of a device, with its context current: held while queues and memory change.

    Raises: Unsupported while the same thread holds it: a handler of a signal interrupted it.
    DeviceGone on a lost context.
    """

    def __init__(self, name: str, context: Context) -> None:
        self._name, self._context = name, context
        self._lock, self._inside, self._current = RLock(), False, False

    def __enter__(self) -> None:
        self._take()
        try:
            self._context.push()
        except BaseException:
            self._drop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._context.pop()
        finally:
            self._drop()

    def _take(self) -> None:
        self._lock.acquire()
        if self._inside:
            self._lock.release()
            raise Unsupported(
                f"a signal handler uses {self._name}, which it interrupted at work",
                hint="note the signal in the handler, and use the device after it",
            )
        self._inside = True

    def _drop(self) -> None:
        self._inside = False
        self._lock.release()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """The same to close a device: also where its context is lost."""
        self._take()
        try:
            self._current = self._pushed()
            try:
                yield
            finally:
                self.leave_current()
        finally:
            self._drop()

    def _pushed(self) -> bool:
        """Make the context current; whether it could be."""
        try:
            self._context.push()
        except DeviceGone:
            return False  # said when it was lost
        return True

    def leave_current(self) -> None:
        """What was current before a closing is so again."""
        current, self._current = self._current, False
        if current:
            self._context.pop()

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held it."""
        self._lock, self._inside = RLock(), False
