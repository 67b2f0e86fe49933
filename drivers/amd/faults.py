"""Why a queue stopped: errors that name buffer and kernel, from the GPU's report and the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from drivers.amd.pair import AmdPair
from drivers.amd.programs import Programs
from drivers.base.errors import DeviceFault, DeviceTimeout, Hang, MalformedInput
from drivers.gpu.blocks import Block
from drivers.gpu.faults import RECOVERED, kernels_named, page_fault, uncorrectable, was_reset
from drivers.gpu.incident import Incident
from drivers.gpu.recordings import Recordings
from drivers.gpu.ring import DUMP_BYTES, DUMP_LINES, Ring
from queues.amd.kernarg import NULL_BYTES
from queues.amd.pm4_launch import PGM_SHIFT, Target
from queues.amd.pm4_layouts import SH_REG_BASE
from queues.decode import decode, decoder, dump, words_of
from queues.packet_layout import Packet

MOST_NAMES: Final = 4
JUMPS: Final = frozenset({"INDIRECT_BUFFER", "PM4_IB"})
_WAITS: Final = {"WAIT_REG_MEM": ("mem_poll_addr", "reference"), "POLL_REGMEM": ("addr", "value")}
"""Fields with the address and the value that a packet waits for."""
_FILLERS: Final = frozenset({"NOP", "TYPE2", "INVALID", "PRED_EXEC"})
COPY_CLIENT: Final = "SDMA"
"""How the names of copy engines begin where a page fault reports its unit."""
SignalAt: TypeAlias = Callable[[int], int | None]
"""The value of the signal at an address; None without one."""
_LOGGED: Final = (
    "a wave that stopped is in the kernel's log: `dmesg | grep 'sq_intr: error'` "
    "(type 1: illegal instruction, 2: memory violation)"
)
"""# src: Linux amdkfd/kfd_int_process_v10.c, v11.c print_sq_intr_info_error(); v9.c: err_type"""


def packets(ring: Ring) -> Iterator[Packet]:
    """Packets that the ring has not finished; ends at the first word that is no packet."""
    yield from _until_bad(ring.decode_as, ring.arch, ring.pending_bytes())


def _until_bad(kind: str, arch: str, data: bytes) -> Iterator[Packet]:
    try:
        yield from decode(decoder(kind, arch), words_of(data))
    except MalformedInput:
        return


def jumped(recordings: Recordings, ring: Ring, packet: Packet) -> tuple[int, bytes]:
    """(address, packets) at the target of a jump in the ring; b"" where they are not known."""
    va, nbytes = packet.fields["ib_base"], 4 * packet.fields["ib_size"]
    return va, ring.packets_at(va, nbytes) or recordings.packets(va, nbytes)


def waits(recordings: Recordings, ring: Ring, signal_at: SignalAt) -> bool:
    """Whether the ring is stopped at a packet that waits for a signal, which may still be set.

    Which packet of an indirect buffer it is at is not known: one that waits is enough.
    """
    for packet in packets(ring):
        if packet.name in JUMPS:
            _, data = jumped(recordings, ring, packet)
            inside = list(_until_bad("pm4", ring.arch, data))
            return any(_unmet(inner, signal_at) for inner in inside)
        if packet.name not in _FILLERS:
            return _unmet(packet, signal_at)
    return False


def _unmet(packet: Packet, signal_at: SignalAt) -> bool:
    names = _WAITS.get(packet.name)
    if names is None:
        return False
    va, reference = names
    value = signal_at(packet.fields[va])
    return value is not None and value < packet.fields[reference]


def stands_at(recordings: Recordings, ring: Ring) -> str:
    """The ring's dump, then the packets at the target of its first jump."""
    lines = ring.dump()
    first = next((packet for packet in packets(ring) if packet.name not in _FILLERS), None)
    if first is None or first.name not in JUMPS:
        return lines
    va, data = jumped(recordings, ring, first)
    inner = dump(decoder("pm4", ring.arch), words_of(data[:DUMP_BYTES]), limit=DUMP_LINES)
    return f"{lines}\n  at {va:#x}:\n{inner}" if data else lines


_ADVICE: Final = {
    "bad packet": "Report it: this driver made the packet",
    "illegal instruction": "Compile the kernel for this chip, and see that it keeps to its code",
    "memory violation": "Check alignment and local memory (LDS) of the kernel's accesses",
    "too little scratch": "Report it: this driver gives the queue its scratch",
    "workgroup too large": "Launch smaller workgroups",
}
_TRAP: Final = "s_trap"
_TRAP_ADVICE: Final = "The kernel stopped itself: 2 is abort() and failed assertions"


class AmdReporter:
    """Errors of the device called `name`; `blocks` answers its allocated memory."""

    def __init__(
        self,
        name: str,
        target: Target,
        pair: AmdPair,
        programs: Programs,
        recordings: Recordings,
        blocks: Callable[[], list[Block]],
        signal_at: SignalAt,
    ) -> None:
        self._name, self._pair, self._programs, self._recordings = name, pair, programs, recordings
        self._blocks, self._signal_at = blocks, signal_at
        self._pgm_lo = target.registers.addresses["COMPUTE_PGM_LO"] - SH_REG_BASE
        """As SET_SH_REG counts."""

    def suspects(self, incident: Incident) -> tuple[Ring, ...]:
        """The queues that may have faulted: one, where the GPU reports the unit."""
        client = incident.page.client if incident.page is not None else ""
        compute, copies = self._pair.rings
        if not client and not incident.stopped:
            return compute, copies
        return (copies if client.startswith(COPY_CLIENT) else compute,)

    def waits(self, ring: Ring) -> bool:
        """Whether a queue is stopped at a packet that waits for a signal."""
        return waits(self._recordings, ring, self._signal_at)

    def kernels(self, ring: Ring) -> list[str]:
        """Names of the kernels that the ring has not finished, the first one first."""
        found: list[str] = []
        for packet in packets(ring):
            for name in self._named(packet):
                if name not in found:
                    found.append(name)
        return found[:MOST_NAMES]

    def _named(self, packet: Packet) -> Iterable[str]:
        if packet.name == "SET_SH_REG" and packet.fields["reg_offset"] == self._pgm_lo:
            low, high = packet.tail[:2]
            return self._programs.names(code_va=(high << 32 | low) << PGM_SHIFT)
        if packet.name == "KERNEL_DISPATCH":
            return self._programs.names(descriptor_va=packet.fields["kernel_object"])
        if packet.name in JUMPS:
            return self._recordings.names(packet.fields["ib_base"])
        return ()

    def fault(self, incident: Incident, ring: Ring) -> DeviceFault:
        """The error for a reported fault; `ring` is the queue that was running."""
        names = self._programs.names(code_va=incident.pc) if incident.pc else []
        names = names or self.kernels(ring)
        if incident.page is not None:
            advice = self._advice(incident.page.gpu_va, names)
            return page_fault(incident.page, ring.name, self._blocks(), names, advice)
        if incident.reset is not None:
            return was_reset(self._name, incident.cause, incident.reset, names, ring.name)
        if incident.stopped:
            return self._stopped(incident, names, ring)
        return uncorrectable(self._name, incident.cause, names, ring.name)

    def _advice(self, va: int, names: list[str]) -> str:
        """What to do about a page fault where services of a host runtime would be, else ""."""
        used = self._programs.services(names) if va < NULL_BYTES else []
        if not used:
            return ""
        return f"No launch here serves {'; '.join(used)}: compile the kernel without what it uses"

    def _stopped(self, incident: Incident, names: list[str], ring: Ring) -> DeviceFault:
        why, at = incident.cause, f" near pc {incident.pc:#x}" if incident.pc else ""
        advice = _TRAP_ADVICE if why.startswith(_TRAP) else _ADVICE.get(why, "Report it")
        return DeviceFault(
            f"{ring.name}: {why}{at} while {kernels_named(names)} ran; it stands at\n"
            f"{stands_at(self._recordings, ring)}\n",
            kind=why,
            kernel=names[0] if names else "",
            queue=ring.name,
            hint=f"{advice}; {RECOVERED}",
        )

    def hang(self, ring: Ring, *, parked: bool) -> Hang:
        """The error for a queue without progress, with the packets it is stopped at.

        A `parked` one waits for a signal and continues after that; others are replaced.
        """
        text, names = stands_at(self._recordings, ring), self.kernels(ring)
        inside = f" in {kernels_named(names)}" if names else ""
        return Hang(
            f"{ring.name} made no progress for {ring.hang_s:g} s{inside}; it stands at\n{text}\n",
            queue=ring.name,
            dump=text,
            hint="Signal what it waits for; the queue goes on then"
            if parked
            else "Look for a loop that does not end, or give kernels more time "
            f"(AMD_HANG_S, in seconds; 0 for no limit); {_LOGGED}; {RECOVERED}",
        )

    def late(self, ring: Ring, timeout_s: float, *, parked: bool) -> DeviceTimeout:
        """The error for a caller whose timeout is over; the queue continues its work."""
        at = stands_at(self._recordings, ring)
        return DeviceTimeout(
            f"{ring.name} is not done after {timeout_s:g} s; it is at\n{at}\n",
            register=ring.name,
            last=ring.done,
            hint=f"{'Signal what it waits for' if parked else 'Wait again'}; nothing was lost",
        )
