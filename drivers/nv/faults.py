"""Why a queue stopped: errors that name buffer and kernel, from RM's report and the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from drivers.base.errors import DeviceFault, DeviceTimeout, Hang, MalformedInput
from drivers.gpu.blocks import Block
from drivers.gpu.faults import RECOVERED, kernels_named, page_fault, uncorrectable
from drivers.gpu.incident import Incident
from drivers.gpu.ring import Ring
from drivers.nv.nvk.faults import COPY_CLIENT
from drivers.nv.programs import Programs
from drivers.nv.push_ring import PushRing
from drivers.nv.rings import NvComputeRing, NvPair
from queues.decode import decode, decoder, words_of
from queues.nv.generations import Generation
from queues.nv.qmd import ALIGN_BYTES
from queues.packet_layout import Packet

MOST_NAMES: Final = 4
SignalAt: TypeAlias = Callable[[int], int | None]
"""The value of the signal at an address; None without one."""
_ACQUIRES: Final = frozenset({2, 3})
"""SEM_EXECUTE_OPERATION ACQ_STRICT_GEQ and ACQ_CIRC_GEQ."""
_OPERATION_MASK: Final = 7
_SEMAPHORE_WORDS: Final = 5
_ADVICE: Final = {
    "bad packet": "Report it: this driver made the packet",
    "bad method": "Report it: this driver made the packet",
    "misaligned address": "Check alignment of the kernel's accesses",
    "address out of range": "Check the kernel's accesses to shared and private memory",
    "illegal instruction": "Compile the kernel for this chip",
}


def packets(ring: Ring) -> Iterator[Packet]:
    """Packets that the ring has not finished; ends at the first word that is no packet."""
    try:
        yield from decode(decoder(ring.decode_as, ring.arch), words_of(ring.pending_bytes()))
    except MalformedInput:
        return


class NvReporter:
    """Errors of the device called `name`; `blocks` answers its allocated memory."""

    def __init__(
        self,
        name: str,
        generation: Generation,
        pair: NvPair,
        programs: Programs,
        blocks: Callable[[], list[Block]],
        signal_at: SignalAt,
    ) -> None:
        self._name, self._generation, self._pair = name, generation, pair
        self._programs, self._blocks, self._signal_at = programs, blocks, signal_at

    def suspects(self, incident: Incident) -> tuple[Ring, ...]:
        """Queues whose channels RM reported: each has a notifier of its own. The cause's first."""
        compute, copies = self._pair.rings
        client = incident.page.client if incident.page is not None else incident.cause
        first: Ring = copies if client.startswith(COPY_CLIENT) else compute
        dead = [one for one in self._pair.rings if isinstance(one, PushRing) and one.hw.dead]
        return tuple(sorted(dead, key=lambda ring: ring is not first)) or (first,)

    def waits(self, ring: Ring) -> bool:
        """Whether a queue is stopped at a semaphore of a signal, which may still be set."""
        if isinstance(ring, PushRing) and ring.hw.dead:
            return False
        for packet in packets(ring):
            if packet.name == "SEM_ADDR_LO" and len(packet.tail) == _SEMAPHORE_WORDS:
                low, high, value, upper, execute = packet.tail
                if execute & _OPERATION_MASK in _ACQUIRES:
                    now = self._signal_at(high << 32 | low)
                    if now is not None and now < (upper << 32 | value):
                        return True
        return False

    def kernels(self, ring: Ring) -> list[str]:
        """Names of the kernels that the ring has not finished, the first one first."""
        finished = ring.finished[0] if isinstance(ring, NvComputeRing) else 0
        return self._named(ring, finished) or self._named(ring, 0)  # of a graph before, maybe

    def _named(self, ring: Ring, finished: int) -> list[str]:
        """Those that QMDs in the ring start, and that follow these, but a graph's first ones."""
        found: list[str] = []
        for packet in packets(ring):
            if packet.name == "SEND_PCAS_A" and packet.tail:
                va = packet.tail[0] * ALIGN_BYTES
                names = self._programs.names_of_qmd(ring.packets_at, va, finished)
                found += [name for name in names if name not in found]
        return list(dict.fromkeys(found))[:MOST_NAMES]

    def fault(self, incident: Incident, ring: Ring) -> DeviceFault:
        """The error for a reported fault; `ring` is the queue that was running."""
        names = self._programs.names(incident.pc) if incident.pc else []
        names = names or self.kernels(ring)
        if incident.page is not None:
            return page_fault(incident.page, ring.name, self._blocks(), names)
        if incident.stopped:
            return self._stopped(incident, names, ring)
        return uncorrectable(self._name, incident.cause, names, ring.name)

    def _stopped(self, incident: Incident, names: list[str], ring: Ring) -> DeviceFault:
        why, at = incident.cause, f" near pc {incident.pc:#x}" if incident.pc else ""
        advice = _ADVICE.get(why, "See the kernel log (dmesg): NVRM reports an Xid")
        return DeviceFault(
            f"{ring.name}: {why}{at} while {kernels_named(names)} ran; it stands at\n"
            f"{ring.dump()}\n",
            kind=why,
            kernel=names[0] if names else "",
            queue=ring.name,
            hint=f"{advice}; {RECOVERED}",
        )

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
            f"(NV_HANG_S, in seconds; 0 for no limit); {RECOVERED}",
        )

    def late(self, ring: Ring, timeout_s: float, *, parked: bool) -> DeviceTimeout:
        """The error for a caller whose timeout is over; the queue continues its work."""
        return DeviceTimeout(
            f"{ring.name} is not done after {timeout_s:g} s; it is at\n{ring.dump()}\n",
            register=ring.name,
            last=ring.done,
            hint=f"{'Signal what it waits for' if parked else 'Wait again'}; nothing was lost",
        )
