"""The queue of a device: commands are encoded into one encoder, and submitted together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, DeviceFault, Hang
from drivers.base.undo import Step
from drivers.webgpu import abi
from drivers.webgpu.adapters import ANSWER
from drivers.webgpu.layout import Record
from drivers.webgpu.link import Link
from drivers.webgpu.readback import Readback
from drivers.world.native import address_of, callback

WORD_BYTES: Final = 4
STAGING_BYTES: Final = 16 << 20
"""Most bytes of one copy between host and device; more are copied piece by piece."""
MAX_OPEN: Final = 64
"""Kernels that wait for a submit."""
SLOT_BYTES: Final = 256
"""Times are stored so far apart. # src: WebGPU, GPUCommandEncoder.resolveQuerySet"""
SLOTS: Final = 64
PATIENCE_S: Final = 60.0
ASK_AGAIN_S: Final = 1.0
"""Without an answer for so long, the end of the work is asked for once more."""
_DONE_2: Final = "void(*)(uint32_t, uint64_t, uint64_t)"
_NS: Final = 10**9


class Moment:
    """When a submit was seen to be done, by the host's clock."""

    __slots__ = ("ns", "position")

    def __init__(self, position: int) -> None:
        self.position, self.ns = position, 0

    def time_ns(self) -> int:
        """0 before."""
        return self.ns


class Stream:
    """Everything of a device runs in the order in which it is encoded here."""

    def __init__(self, link: Link) -> None:
        self.link, self.do, self.world = link, link.do, link.api.world
        self.number = self.done = self._asked = self._failed = 0
        """Submits; those known to be done; the last that its end was asked of."""
        self._encoder = self._pass = self._open = 0
        self._asked_s = 0.0
        self._written_bytes = 0
        """Of the host's, that the library has copied since the last submit."""
        self.dropped: set[int] = set()
        """Submits whose commands were thrown away: nothing in them was run."""
        self._moments: deque[Moment] = deque()
        """Those that wait for their time, in order."""
        self._readback = Readback(link, self.buffer)
        self.queries = self.times_buffer = 0
        self._submitted = bytearray(8)
        self._submitted_at = address_of(self._submitted)
        self._encoder_record = Record(link.api.layouts.of("QueueDescriptor"))
        short = not link.api.flavour.done_words
        report: Callable[..., None] = self._ended_2 if short else self._ended
        address, self._kept = callback(_DONE_2 if short else ANSWER, report, link.errors.append)
        self._info = link.api.record(
            "CallbackInfo", mode=abi.ALLOW_PROCESS_EVENTS, callback=address
        )

    def make_times(self) -> None:
        """Queries for time stamps."""
        link = self.link
        record = link.api.record("QuerySetDescriptor", type=abi.QUERY_TIMESTAMP, count=SLOTS)
        self.queries = link.make("wgpuDeviceCreateQuerySet", record.at, "wgpuQuerySetRelease")
        self.times_buffer = self.buffer(
            SLOTS * SLOT_BYTES, abi.USAGE_QUERY_RESOLVE | abi.USAGE_COPY_SRC
        )

    def buffer(self, nbytes: int, usage: int) -> int:
        """A new WGPUBuffer. Raises: OutOfMemory."""
        record = self.link.api.record("BufferDescriptor", size=nbytes, usage=usage)
        call = "wgpuDeviceCreateBuffer"
        return self.link.make(call, record.at, "wgpuBufferRelease", nbytes)

    def drop_buffer(self, handle: int) -> None:
        """Destroy and release one, whose uses were submitted."""
        self.do["wgpuBufferDestroy"](handle)
        self.do["wgpuBufferRelease"](handle)

    # encoding

    @property
    def position(self) -> int:
        """The submit that is done when everything encoded is done."""
        return self.number + (self._encoder != 0)

    def _encode(self) -> int:
        if not self._encoder:
            call = "wgpuDeviceCreateCommandEncoder"
            at = self._encoder_record.at
            self._encoder = self.link.make(call, at, "wgpuCommandEncoderRelease")
        return self._encoder

    def _compute(self) -> int:
        if not self._pass:
            descriptor = self.link.api.record("ComputePassDescriptor")
            self._pass = self._begun(descriptor)
        return self._pass

    def _begun(self, descriptor: Record) -> int:
        call = "wgpuCommandEncoderBeginComputePass"
        made = self.do[call](self._encode(), descriptor.at)
        if not made:
            raise DeviceError(f"{call} gives no pass", hint="update the WebGPU library")
        return made

    def _end_pass(self) -> None:
        if self._pass:
            ended, self._pass = self._pass, 0
            self.do["wgpuComputePassEncoderEnd"](ended)
            self.do["wgpuComputePassEncoderRelease"](ended)

    def dispatch(self, pipeline: int, group: int, grid: tuple[int, int, int]) -> None:
        """A kernel."""
        encoder, do = self._pass or self._compute(), self.do
        do["wgpuComputePassEncoderSetPipeline"](encoder, pipeline)
        do["wgpuComputePassEncoderSetBindGroup"](encoder, 0, group, 0, 0)
        do["wgpuComputePassEncoderDispatchWorkgroups"](encoder, *grid)
        self._open += 1
        if self._open >= MAX_OPEN:
            self.submit()

    def copy(self, dst: int, src: int, nbytes: int, at: int = 0, dst_at: int = 0) -> None:
        """A copy between two buffers, whole words."""
        self._end_pass()
        call = self.do["wgpuCommandEncoderCopyBufferToBuffer"]
        call(self._encode(), src, at, dst, dst_at, nbytes)

    def stamp(self, slot: int) -> None:
        """The time when everything before is done."""
        self._end_pass()
        writes = self.link.api.record(
            "PassTimestampWrites", querySet=self.queries, beginningOfPassWriteIndex=slot,
            endOfPassWriteIndex=abi.NOT_WRITTEN,
        )  # fmt: skip
        descriptor = self.link.api.record("ComputePassDescriptor", timestampWrites=writes.at)
        self._pass = self._begun(descriptor)
        self._end_pass()
        resolve = self.do["wgpuCommandEncoderResolveQuerySet"]
        resolve(self._encoder, self.queries, slot, 1, self.times_buffer, slot * SLOT_BYTES)

    def submit(self) -> None:
        """Hand over what was encoded. Raises: DeviceError for what the library reports of it."""
        if not self._encoder:
            return
        self._end_pass()
        self.number += 1
        self.dropped.add(self.number)  # until it is handed over
        encoder, self._encoder, self._open = self._encoder, 0, 0
        buffer = self.do["wgpuCommandEncoderFinish"](encoder, 0)
        self.do["wgpuCommandEncoderRelease"](encoder)
        if self.link.errors or self.link.gone is not None:
            if buffer:  # wgpu-native ends the process where invalid commands are submitted
                self.do["wgpuCommandBufferRelease"](buffer)
            self.link.check("wgpuCommandEncoderFinish")
        if not buffer:
            raise DeviceError("wgpuCommandEncoderFinish gives no commands", hint="update it")
        self._submitted[:] = buffer.to_bytes(8, "little")
        self.do["wgpuQueueSubmit"](self.link.queue, 1, self._submitted_at)
        self.do["wgpuCommandBufferRelease"](buffer)
        if self.link.errors or self.link.gone is not None:
            self.link.check("wgpuQueueSubmit")
        self.dropped.discard(self.number)
        self._written_bytes = 0

    def flush(self) -> int:
        """Hand over what was encoded, and what the host wrote; its submit. Raises: DeviceError."""
        self.submit()
        if self._written_bytes:
            self.number += 1
            self.do["wgpuQueueSubmit"](self.link.queue, 0, 0)
            self._written_bytes = 0
        return self.number

    # waiting

    def _ended(self, status: int, _: int, __: int, position: int, *___: int) -> None:
        self._ended_2(status, position)

    def _ended_2(self, status: int, position: int, *_: int) -> None:
        if status & 0xFFFFFFFF == abi.SUCCESS:
            self._advance(position)
        else:
            self._failed = status & 0xFFFFFFFF

    def _advance(self, position: int) -> None:
        """The submits up to this one are done."""
        if self._moments:
            now_ns = self.now_ns()
            for _ in range(len(self._moments)):
                if self._moments[0].position > position:
                    break
                self._moments.popleft().ns = now_ns
        self.done = max(self.done, position)

    def now_ns(self) -> int:
        """The host's clock."""
        return int(self.world.monotonic_s() * _NS)

    def moment(self) -> Moment:
        """The host's time when everything encoded is seen to be done."""
        made = Moment(self.position)
        if self.done >= made.position:
            made.ns = self.now_ns()
        else:
            self._moments.append(made)
        return made

    def reached(self, position: int) -> bool:
        """Whether the queue has passed a submit; what is not submitted is now.

        Raises: DeviceGone. What is in `dropped` is passed, too, and was not run.
        """
        if position > self.number:
            self.submit()
        if self.done >= position:
            return True
        if self._asked < position or self.world.monotonic_s() - self._asked_s > ASK_AGAIN_S:
            self._info["userdata1"] = number = self.number
            self.link.api.ask("wgpuQueueOnSubmittedWorkDone", self.link.queue, info=self._info)
            self._asked, self._asked_s = number, self.world.monotonic_s()
        self.link.poll()
        if self.done < position:
            self.link.check("wgpuQueueOnSubmittedWorkDone")
            self._check_ended()
        return self.done >= position

    def _check_ended(self) -> None:
        """Raises: DeviceFault where the library says that work did not end well."""
        if self._failed:
            status, self._failed, self._asked = self._failed, 0, 0
            raise DeviceFault(
                f"work of a WebGPU queue failed: status {status}", kind=f"status {status}",
                hint="see what the kernels before it access",
            )  # fmt: skip

    def wait(self, position: int, timeout_s: float, name: str) -> None:
        """Return when a submit is done. Raises: Hang, DeviceGone."""
        for _ in polls(timeout_s, self.world):
            if self.reached(position):
                return
        raise Hang(
            f"{name} is not done after {timeout_s:g} s", queue=name,
            dump=f"submit {position} of {self.number}, {self.done} are done",
            hint="wait longer, or make smaller kernels",
        )  # fmt: skip

    # the host's copies

    def write(self, handle: int, at: int, data: memoryview) -> None:
        """Whole words of the host into a buffer, after everything encoded."""
        self.submit()
        call = self.do["wgpuQueueWriteBuffer"]
        for begin in range(0, data.nbytes, STAGING_BYTES):
            part = data[begin : begin + STAGING_BYTES]
            call(self.link.queue, handle, at + begin, address_of(part), part.nbytes)
            self._written_bytes += part.nbytes
            if self._written_bytes > STAGING_BYTES:  # the library frees its copies with a submit
                self.wait(self.flush(), PATIENCE_S, "a copy to the device")
        self.link.check("wgpuQueueWriteBuffer")

    def read(self, handle: int, at: int, data: memoryview) -> None:
        """A buffer's bytes from a multiple of a word on, after everything encoded."""
        for begin in range(0, data.nbytes, STAGING_BYTES):
            part = data[begin : begin + STAGING_BYTES]
            nbytes = part.nbytes + -part.nbytes % WORD_BYTES
            staging = self._readback.staged(nbytes)
            self.copy(staging, handle, nbytes, at + begin)
            self.submit()
            number = self.number
            self._readback.read(part, nbytes)
            self._advance(number)
        self.link.check("wgpuBufferMapAsync")

    def close_steps(self) -> list[Step]:
        """What releases its objects."""
        steps: list[Step] = [self._abandon, self._readback.drop]
        if self.times_buffer:
            steps.append(partial(self.drop_buffer, self.times_buffer))
        if self.queries:
            steps.append(partial(self.do["wgpuQuerySetRelease"], self.queries))
        return steps

    def _abandon(self) -> None:
        """Release an encoder whose commands are not run."""
        self._end_pass()
        if self._encoder:
            encoder, self._encoder = self._encoder, 0
            self.do["wgpuCommandEncoderRelease"](encoder)
