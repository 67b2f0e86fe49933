"""Why a queue stopped: errors that name kernel and buffer, from the kernel driver and the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from drivers.base.errors import DeviceFault, DeviceTimeout, Hang, MalformedInput
from drivers.gpu.blocks import Block
from drivers.gpu.faults import RECOVERED, kernels_named, page_fault
from drivers.gpu.incident import Incident
from drivers.gpu.ring import Ring
from drivers.qcom.programs import Programs
from drivers.qcom.rings import QcomComputeRing, QcomPair
from drivers.qcom.stream_ring import StreamRing
from queues.decode import decode, decoder, words_of
from queues.packet_layout import Packet
from queues.qcom.pm4 import WORD_BITS

MOST_NAMES: Final = 4
SignalAt: TypeAlias = Callable[[int], int | None]
"""The value of the signal at an address; None without one."""
_POLL_WORDS: Final = 6
_CODE: Final = "SP_CS_OBJ_FIRST_EXEC_OFFSET"
_CODE_WORDS: Final = 3
_LOG: Final = "See the kernel log (dmesg), which names the address or the packet"


def packets(ring: Ring) -> Iterator[Packet]:
    """Packets that the ring has not finished; ends at the first word that is no packet."""
    try:
        yield from decode(decoder(ring.decode_as, ring.arch), words_of(ring.pending_bytes()))
    except MalformedInput:
        return


class QcomReporter:
    """Errors of the device called `name`; `blocks` answers its allocated memory."""

    def __init__(
        self,
        name: str,
        pair: QcomPair,
        programs: Programs,
        blocks: Callable[[], list[Block]],
        signal_at: SignalAt,
    ) -> None:
        self._name, self._pair = name, pair
        self._programs, self._blocks, self._signal_at = programs, blocks, signal_at

    def suspects(self, incident: Incident) -> tuple[Ring, ...]:
        """Queues whose contexts the kernel driver reported; else the one with work."""
        dead = [one for one in self._pair.rings if isinstance(one, StreamRing) and one.hw.dead]
        busy = [one for one in self._pair.rings if not one.idle]
        return tuple(dead) or tuple(busy[:1]) or (self._pair.compute,)

    def waits(self, ring: Ring) -> bool:
        """Whether a queue is stopped at a wait for a signal, which may still be set."""
        if isinstance(ring, StreamRing) and ring.hw.dead:
            return False
        if isinstance(ring, StreamRing) and ring.lane.held:
            return True
        for packet in packets(ring):
            if packet.name == "WAIT_REG_MEM" and len(packet.tail) == _POLL_WORDS:
                _, low, high, value, *_ = packet.tail
                now = self._signal_at(high << WORD_BITS | low)
                if now is not None and now < value:
                    return True
        return False

    def kernels(self, ring: Ring) -> list[str]:
        """Names of the kernels that the ring has not finished, the first one first."""
        finished = ring.finished[0] if isinstance(ring, QcomComputeRing) else 0
        found: list[str] = []
        for packet in packets(ring):
            if packet.name == _CODE and len(packet.tail) >= _CODE_WORDS:
                found += self._programs.names(packet.tail[2] << WORD_BITS | packet.tail[1])[:1]
        left = found[finished:] or found  # the count is of the graph that is replayed
        return list(dict.fromkeys(left))[:MOST_NAMES]

    def fault(self, incident: Incident, ring: Ring) -> DeviceFault:
        """The error for a reported fault; `ring` is the queue that was running."""
        names = self.kernels(ring)
        if incident.page is not None:
            return page_fault(incident.page, ring.name, self._blocks(), names)
        error = DeviceFault(
            f"{ring.name}: {incident.cause} while {kernels_named(names)} ran; it stands at\n"
            f"{ring.dump()}\n",
            kind=incident.cause,
            kernel=names[0] if names else "",
            queue=ring.name,
            hint=f"{_LOG}; {RECOVERED}",
        )
        if incident.unread:
            error.add_note(f"and its fault report could not be read: {incident.unread}")
        return error

    def hang(self, ring: Ring, *, parked: bool) -> Hang:
        """The error for a queue without progress, with the packets it is stopped at."""
        text, names = ring.dump(), self.kernels(ring)
        inside = f" in {kernels_named(names)}" if names else ""
        return Hang(
            f"{ring.name} made no progress for {ring.hang_s:g} s{inside}; it stands at\n{text}\n",
            queue=ring.name,
            dump=text,
            hint="Signal what it waits for; the queue goes on then"
            if parked
            else "Look for a loop that does not end, or give kernels more time "
            f"(QCOM_HANG_S, in seconds; 0 for no limit); {RECOVERED}",
        )

    def late(self, ring: Ring, timeout_s: float, *, parked: bool) -> DeviceTimeout:
        """The error for a caller whose timeout is over; the queue continues its work."""
        return DeviceTimeout(
            f"{ring.name} is not done after {timeout_s:g} s; it is at\n{ring.dump()}\n",
            register=ring.name,
            last=ring.done,
            hint=f"{'Signal what it waits for' if parked else 'Wait again'}; nothing was lost",
        )
