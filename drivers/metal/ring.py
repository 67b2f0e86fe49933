"""One command queue of a device: the command buffer that is open, and those that run.

A queue runs its command buffers in order, and the commands of one compute encoder one after the
other; memory that a command writes is seen by later ones, which Metal tracks by buffer.
# src: Apple, MTLHazardTrackingMode, MTLDispatchTypeSerial
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, Hang
from drivers.base.moments import nanoseconds
from drivers.base.undo import Undo
from drivers.hosted.pending import advance, shown
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api, Owned, retained
from drivers.metal.errors import described, failed
from drivers.metal.memory import Block

Command: TypeAlias = Callable[[], bool]
"""Encodes itself; False while it waits for a signal."""
COMPUTE: Final = "computeCommandEncoder"
BLIT: Final = "blitCommandEncoder"
COMPLETED: Final = CONSTANTS["MTL::CommandBufferStatusCompleted"]
FAILED: Final = CONSTANTS["MTL::CommandBufferStatusError"]
BATCH: Final = 64
"""Launches of one command buffer, while the GPU still has others."""
MOST_BUFFERS: Final = 1024
"""Command buffers that a queue may have at once: Metal waits for ever where one more is asked for.
# src: Apple, commandBuffer of MTLCommandQueue: "blocks the calling CPU thread" """
MOST_RUNNING: Final = MOST_BUFFERS // 2
"""So the driver waits before that, with a deadline."""
PATIENCE_S: Final = 10.0
"""How long nothing may end while something is waited for."""


class Work:
    """A command buffer."""

    __slots__ = ("buffer", "done", "end_ns", "failed", "position", "raises")

    def __init__(self, buffer: Owned, position: int) -> None:
        self.buffer, self.position = buffer, position
        self.done, self.failed, self.end_ns = False, False, 0
        self.raises: list[tuple[int, int]] = []
        """Shared events that it sets, with the values."""


class Ring:
    """`pending` runs in order, from the first command that waits for a signal on.

    Everything is called with the device's lock held.
    """

    def __init__(self, api: Api, queue: Owned, name: str) -> None:
        self.api, self.queue, self.name = api, queue, name
        self.pending: deque[Command] = deque()
        self.running: deque[Work] = deque()
        self.failed: DeviceError | None = None
        self.used = False
        """Whether it ever ran anything."""
        self.gpu_ns = 0
        """How long its command buffers ran, all together."""
        self.pipeline = 0
        self.bound: dict[int, tuple[Block, int]] = {}
        """What the open encoder has: its pipeline, and (buffer, offset) by place."""
        self._work: Work | None = None
        self._encoder: Owned | None = None
        self._kind = ""
        self._encoded = self._positions = 0

    @property
    def busy(self) -> bool:
        """Whether something was encoded that is not known to be done."""
        return self._work is not None or bool(self.running)

    # Encoding

    def work(self) -> Work:
        """The open command buffer. Raises: Hang where too many run and none ends."""
        if self._work is None:
            self._room()
            api = self.api
            with api.pool():
                made = retained(api, api.send["commandBuffer"](self.queue.handle))
            self._positions += 1
            self._work, self.used = Work(made, self._positions), True
        return self._work

    def _room(self) -> None:
        if len(self.running) < MOST_RUNNING:
            return
        for _ in polls(PATIENCE_S, self.api.world):
            self.collect()
            if len(self.running) < MOST_RUNNING:
                return
        raise Hang(
            f"{self.name} has {len(self.running)} command buffers, and none ends in "
            f"{PATIENCE_S:g} s", queue=self.name, dump=self.dump(),
            hint="set what they wait for, or make smaller kernels",
        )  # fmt: skip

    def encoder(self, kind: str) -> int:
        """An encoder of that kind in the open command buffer."""
        if self._encoder is None or self._kind != kind:
            self.end_encoder()
            api, work = self.api, self.work()
            with api.pool():
                self._encoder = retained(api, api.send[kind](work.buffer.handle))
            self._kind = kind
        self._encoded += 1
        return self._encoder.handle

    def end_encoder(self) -> None:
        """What follows is encoded by another one, or by none."""
        encoder, self._encoder = self._encoder, None
        self.pipeline, self.bound = 0, {}
        if encoder is not None:
            with Undo() as undo:
                undo.add(encoder.release)
                self.api.send["endEncoding"](encoder.handle)
            encoder.release()

    def signal(self, event: int, value: int) -> None:
        """Set a shared event once everything before is done."""
        self.end_encoder()
        work = self.work()
        self.api.send["encodeSignalEvent:value:"](work.buffer.handle, event, value)
        work.raises.append((event, value))

    def wait(self, event: int, value: int) -> None:
        """What follows begins once the event has the value."""
        self.end_encoder()
        self.api.send["encodeWaitForEvent:value:"](self.work().buffer.handle, event, value)

    def flush(self) -> None:
        """Hand the open command buffer over."""
        self.end_encoder()
        work, self._work, self._encoded = self._work, None, 0
        if work is not None:
            self.running.append(work)
            self.api.send["commit"](work.buffer.handle)

    def pace(self) -> None:
        """Hand it over where the GPU would have nothing to do, or where it is long enough."""
        self.collect()
        if not self.running or self._encoded >= BATCH:
            self.flush()

    # What runs

    @property
    def ended(self) -> int:
        """Command buffers that have ended, or are not handed over yet."""
        return self._positions - len(self.running)

    def collect(self) -> None:
        """Forget what is done; the first failure is kept.

        Metal sets no event behind a failure: it is set here, so that the other queue goes on.
        """
        send = self.api.send
        for _ in range(len(self.running)):
            work = self.running[0]
            status = send["status"](work.buffer.handle)
            if status < COMPLETED:
                return
            self.running.popleft()
            start_s, end_s = (
                send["GPUStartTime"](work.buffer.handle),
                send["GPUEndTime"](work.buffer.handle),
            )
            self.gpu_ns += max(nanoseconds(end_s - start_s), 0)
            work.end_ns = max(nanoseconds(end_s), 1)
            work.done, work.failed = True, status == FAILED
            with Undo() as undo:
                undo.add(work.buffer.release)
                if work.failed:
                    self._fail(work)
            work.buffer.release()

    def _fail(self, work: Work) -> None:
        send = self.api.send
        for event, value in work.raises:
            if send["signaledValue"](event) < value:
                send["setSignaledValue:"](event, value)
        if self.failed is None:
            self.failed = self._failure(work)

    def _failure(self, work: Work) -> DeviceError:
        api = self.api
        with api.pool():
            code, text = described(api, api.send["error"](work.buffer.handle))
        return failed(self.name, code, text)

    def raise_failed(self) -> None:
        """Raises: the failure of a command buffer, once."""
        error, self.failed = self.failed, None
        if error is not None:
            raise error

    def advance(self) -> bool:
        """Encode what can be and hand it over; whether that was anything."""
        return advance(self.pending, _encoded, self.flush)

    def dump(self) -> str:
        """What waits and runs, as text."""
        return shown(self.pending, f", {len(self.running)} command buffers run")

    def close(self) -> None:
        """Release what is left of command buffers, and the queue. Nothing may be running."""
        self.pending.clear()
        self.end_encoder()
        work, self._work = self._work, None
        left = [*self.running, *([work] if work is not None else [])]
        self.running.clear()
        for one in left:
            one.buffer.release()
        self.queue.release()


def _encoded(command: Command) -> bool:
    return command()
