"""Times of the device: a query for each mark, in slots that are used in turn."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

from drivers.webgpu.signal import Mark
from drivers.webgpu.stream import SLOT_BYTES, SLOTS, Stream

_TICK_BYTES: Final = 8
_MOST_PERIOD_NS: Final = 1e9
"""Beyond it, and for NaN, an adapter has said nothing of use."""


class _Slot:
    """The time in one slot: read when it is asked for, or before the slot is used again."""

    __slots__ = ("__weakref__", "_clock", "_found", "_number")

    def __init__(self, clock: Clock, number: int) -> None:
        self._clock, self._number = clock, number
        self._found: int | None = None

    def time_ns(self) -> int:
        """When its mark was done."""
        if self._found is None:
            self._found = self._clock.read(self._number)
        return self._found


class Clock:
    """Marks of one stream. Without timestamp queries the time is the host's, when their submit is
    seen to be done."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._slots: WeakValueDictionary[int, _Slot] = WeakValueDictionary()
        """Those that a signal may still ask."""
        self._count = 0
        native = stream.link.api.flavour.native
        period = stream.do["wgpuQueueGetTimestampPeriod"] if native else None
        given = float(period(stream.link.queue)) if period and stream.queries else 1.0
        self._period = given if 0 < given < _MOST_PERIOD_NS else 1.0
        """ns of a tick: Dawn's are ns, wgpu-native's the adapter's.
        # src: wgpu.rs, Features::TIMESTAMP_QUERY; WebGPU, "Timestamp Query" """

    def mark(self, value: int | None) -> Mark:
        """Encode a mark."""
        stream = self._stream
        if not stream.queries:
            return Mark(value, stream.position, stream.moment().time_ns)
        number = self._count % SLOTS
        self._count += 1
        before = self._slots.get(number)
        if before is not None:
            before.time_ns()
        slot = self._slots[number] = _Slot(self, number)
        stream.stamp(number)
        return Mark(value, stream.position, slot.time_ns)

    def read(self, number: int) -> int:
        """The time in a slot."""
        room = bytearray(_TICK_BYTES)
        self._stream.read(self._stream.times_buffer, number * SLOT_BYTES, memoryview(room))
        return int(int.from_bytes(room, "little") * self._period)

    def host_ns(self) -> int:
        """The host's clock."""
        return self._stream.now_ns()
