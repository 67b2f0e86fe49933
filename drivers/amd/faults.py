"""Why a queue stopped: errors that name buffer and kernel, from the GPU's report and the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from drivers.amd.iface import PageFault, Reset, Trouble
from drivers.amd.memory import Block
from drivers.amd.ring import DUMP_BYTES, DUMP_LINES, Ring
from drivers.base.errors import DeviceFault, DeviceTimeout, Hang, MalformedInput
from queues.amd.pm4_launch import PGM_SHIFT
from queues.decode import decode, decoder, dump, words_of
from queues.packet_layout import Packet

NEAR_BYTES: Final = 16 << 20
"""How far past a buffer's end an address is still reported with the buffer."""
FRONT_BYTES: Final = 64 << 10
"""How far before one. Faults report a page: an access one byte before is a whole page off."""
_PGM_LO: Final = 0x2E0C - 0x2C00
"""COMPUTE_PGM_LO, as SET_SH_REG counts."""
MOST_NAMES: Final = 4
JUMPS: Final = frozenset({"INDIRECT_BUFFER", "PM4_IB"})
_WAITS: Final = {"WAIT_REG_MEM": ("mem_poll_addr", "reference"), "POLL_REGMEM": ("addr", "value")}
"""Fields with the address and the value that a packet waits for."""
_FILLERS: Final = frozenset({"NOP", "TYPE2", "INVALID", "PRED_EXEC"})
SignalAt: TypeAlias = Callable[[int], int | None]
"""The value of the signal at an address; None without one."""
_LOGGED: Final = (
    "a wave that stopped is in the kernel's log: `dmesg | grep 'sq_intr: error'` "
    "(type 1: illegal instruction, 2: memory violation)"
)
"""# src: Linux amdkfd/kfd_int_process_v10.c, v11.c print_sq_intr_info_error(); v9.c: err_type"""
_RECOVERED: Final = "the queues were replaced and the device can be used; results are lost"


class Device(Protocol):
    """Queries to a device about its buffers, programs and graphs."""

    name: str

    def blocks(self) -> list[Block]:
        """Every allocated block."""

    def program_names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code contains an address, or whose descriptor is at one."""

    def graph_names(self, va: int) -> list[str]:
        """Programs of the graph whose packets are at an address."""

    def graph_packets(self, va: int, nbytes: int) -> bytes:
        """The packets of a graph at an address."""


def place(device: Device, va: int) -> tuple[str, str]:
    """(buffer, where in it) of an address: in one, past its end, right before it, or nowhere.

    A page between two buffers is reported as past the first one's end: the usual mistake.
    """
    best: tuple[int, str, str] | None = None
    for block in device.blocks():
        name, off = f"buffer of {block.nbytes} bytes at {block.gpu_va:#x}", va - block.gpu_va
        if 0 <= off < block.nbytes:
            return name, f"in the {name}, offset {off:#x}"
        if 0 <= off - block.nbytes < NEAR_BYTES:
            found = off - block.nbytes, name, "behind"
        elif 0 < -off <= FRONT_BYTES:
            found = -off, name, "in front of"
        else:
            continue
        best = found if best is None else min(best, found, key=lambda one: (one[0], one[2]))
    if best is None:
        return "", "in no buffer of this device"
    distance, name, side = best
    return name, f"{distance:#x} bytes {side} the {name}"


def packets(ring: Ring) -> Iterator[Packet]:
    """Packets that the ring has not finished; ends at the first word that is no packet."""
    yield from _until_bad(ring.decode_as, ring.arch, ring.pending_bytes())


def _until_bad(kind: str, arch: str, data: bytes) -> Iterator[Packet]:
    try:
        yield from decode(decoder(kind, arch), words_of(data))
    except MalformedInput:
        return


def jumped(device: Device, ring: Ring, packet: Packet) -> list[Packet]:
    """The packets at the target of a jump in the ring, as far as they are known."""
    va, nbytes = packet.fields["ib_base"], 4 * packet.fields["ib_size"]
    data = ring.packets_at(va, nbytes) or device.graph_packets(va, nbytes)
    return list(_until_bad("pm4", ring.arch, data))


def waits(device: Device, ring: Ring, signal_at: SignalAt) -> bool:
    """Whether the ring is stopped at a packet that waits for a signal, which may still be set.

    Which packet of an indirect buffer it is at is not known: one that waits is enough.
    """
    for packet in packets(ring):
        if packet.name in JUMPS:
            return any(_unmet(inner, signal_at) for inner in jumped(device, ring, packet))
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


def stands_at(device: Device, ring: Ring) -> str:
    """The ring's dump, then the packets at the target of its first jump."""
    lines = ring.dump()
    first = next((packet for packet in packets(ring) if packet.name not in _FILLERS), None)
    if first is None or first.name not in JUMPS:
        return lines
    va, nbytes = first.fields["ib_base"], 4 * first.fields["ib_size"]
    data = ring.packets_at(va, nbytes) or device.graph_packets(va, nbytes)
    inner = dump(decoder("pm4", ring.arch), words_of(data[:DUMP_BYTES]), limit=DUMP_LINES)
    return f"{lines}\n  at {va:#x}:\n{inner}" if data else lines


def kernels(device: Device, ring: Ring) -> list[str]:
    """Names of the kernels that the ring has not finished, the first one first."""
    found: list[str] = []
    for packet in packets(ring):
        for name in _named(device, packet):
            if name not in found:
                found.append(name)
    return found[:MOST_NAMES]


def _named(device: Device, packet: Packet) -> Iterable[str]:
    if packet.name == "SET_SH_REG" and packet.fields["reg_offset"] == _PGM_LO:
        low, high = packet.tail[:2]
        return device.program_names(code_va=(high << 32 | low) << PGM_SHIFT)
    if packet.name == "KERNEL_DISPATCH":
        return device.program_names(descriptor_va=packet.fields["kernel_object"])
    if packet.name in JUMPS:
        return device.graph_names(packet.fields["ib_base"])
    return ()


def fault(device: Device, trouble: Trouble, ring: Ring) -> DeviceFault:
    """The error for a reported fault; `ring` is the queue that was running."""
    names = device.program_names(code_va=trouble.pc) if trouble.pc else []
    names = names or kernels(device, ring)
    if trouble.page is not None:
        return _page_fault(device, trouble.page, names, ring)
    if trouble.reset is not None:
        return _reset(device, trouble.cause, trouble.reset, names, ring)
    if trouble.stopped:
        return _stopped(device, trouble, names, ring)
    return DeviceFault(
        f"{device.name}: uncorrectable error ({trouble.cause}) while {_about(names)} ran",
        kind=trouble.cause,
        kernel=names[0] if names else "",
        hint=f"See the kernel log (dmesg) and load programs and data anew; {_RECOVERED}",
    )


_ADVICE: Final = {
    "bad packet": "Report it: this driver made the packet",
    "illegal instruction": "Compile the kernel for this chip, and see that it keeps to its code",
    "memory violation": "Check alignment and local memory (LDS) of the kernel's accesses",
    "too little scratch": "Report it: this driver gives the queue its scratch",
    "workgroup too large": "Launch smaller workgroups",
}
_TRAP: Final = "s_trap"
_TRAP_ADVICE: Final = "The kernel stopped itself: 2 is abort() and failed assertions"


def _stopped(device: Device, trouble: Trouble, names: list[str], ring: Ring) -> DeviceFault:
    why, at = trouble.cause, f" near pc {trouble.pc:#x}" if trouble.pc else ""
    advice = _TRAP_ADVICE if why.startswith(_TRAP) else _ADVICE.get(why, "Report it")
    return DeviceFault(
        f"{ring.name}: {why}{at} while {_about(names)} ran; it stands at\n"
        f"{stands_at(device, ring)}\n",
        kind=why,
        kernel=names[0] if names else "",
        queue=ring.name,
        hint=f"{advice}; {_RECOVERED}",
    )


def _about(names: list[str]) -> str:
    return f"kernel {' or '.join(map(repr, names))}" if names else "no kernel"


def _page_fault(device: Device, page: PageFault, names: list[str], ring: Ring) -> DeviceFault:
    va, kind, access = page.gpu_va, page.kind, page.access
    buffer, where = place(device, va)
    late = ", told late" if page.imprecise else ""
    by = f" by {page.client}" if page.client else ""
    return DeviceFault(
        f"{ring.name}: {kind} {access}{by} at {va:#x}, {where}{late}, while {_about(names)} ran",
        kind=kind,
        gpu_va=va,
        buffer=buffer,
        kernel=names[0] if names else "",
        queue=ring.name,
        access=access,
        hint=f"Check the kernel's indices and the buffers it is given; {_RECOVERED}",
    )


def _reset(device: Device, cause: str, reset: Reset, names: list[str], ring: Ring) -> DeviceFault:
    lost = ", its memory is lost" if reset.memory_lost else ""
    return DeviceFault(
        f"{device.name}: {'the GPU' if reset.whole else 'an engine'} was reset ({cause}){lost}",
        kind=cause,
        kernel=names[0] if names else "",
        queue="" if reset.whole else ring.name,
        hint=f"See the kernel log (dmesg); {_RECOVERED}",
    )


def hang(device: Device, ring: Ring, *, parked: bool) -> Hang:
    """The error for a queue without progress, with the packets it is stopped at.

    A `parked` one waits for a signal and continues after that; others are replaced.
    """
    text = stands_at(device, ring)
    return Hang(
        f"{ring.name} made no progress for {ring.hang_s:g} s{_inside(device, ring)}; "
        f"it stands at\n{text}\n",
        queue=ring.name,
        dump=text,
        hint="Signal what it waits for; the queue goes on then"
        if parked
        else "Look for a loop that does not end, or give kernels more time "
        f"(AMD_HANG_S, in seconds; 0 for no limit); {_LOGGED}; {_RECOVERED}",
    )


def late(device: Device, ring: Ring, timeout_s: float, *, parked: bool) -> DeviceTimeout:
    """The error for a caller whose timeout is over; the queue continues its work."""
    return DeviceTimeout(
        f"{ring.name} is not done after {timeout_s:g} s; it is at\n{stands_at(device, ring)}\n",
        register=ring.name,
        last=ring.done,
        hint=f"{'Signal what it waits for' if parked else 'Wait again'}; nothing was lost",
    )


def unsignalled(name: str, last: int, value: int, timeout_s: float, *, busy: bool) -> DeviceTimeout:
    """The error for a signal that did not come; the queues continue their work."""
    return DeviceTimeout(
        f"a signal is at {last} after {timeout_s:g} s, not at {value}, "
        f"and {name} {'still has work' if busy else 'has no work left'}",
        register="signal",
        last=last,
        hint="wait again; nothing was lost" if busy else "submit the work that signals it",
    )


def _inside(device: Device, ring: Ring) -> str:
    names = kernels(device, ring)
    return f" in kernel {' or '.join(map(repr, names))}" if names else ""
