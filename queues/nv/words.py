"""Words of push buffers: host semaphores, entries of a GPFIFO, copies, caches, an engine's setup.

`Target` names the classes of a chip; every function returns words that `queues.nv.decode` reads
back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.errors import BadArgument
from queues.nv.classes import Methods, Subchannel, high_low, methods_of

ENTRY_BYTES: Final = 8
MAX_VA: Final = 1 << 40
"""Push buffers, QMDs and semaphores lie below it. # src: clc56f.h GP_ENTRY1_GET_HI 7:0"""
_LEVEL_SUBROUTINE: Final = 1 << 41
ENTRY_LENGTH_SHIFT: Final = 42
MAX_SEGMENT_WORDS: Final = (1 << 21) - 1
"""GP_ENTRY1_LENGTH 30:10."""
COPY_MAX_BYTES: Final = 1 << 30
"""Of one copy here; LINE_LENGTH_IN has 32 bits."""


class SemOp(IntEnum):
    """SEM_EXECUTE_OPERATION. # src: clc56f.h"""

    ACQUIRE = 0
    RELEASE = 1
    ACQ_STRICT_GEQ = 2
    ACQ_CIRC_GEQ = 3


class Transfer(IntEnum):
    """LAUNCH_DMA_DATA_TRANSFER_TYPE. # src: clc7b5.h"""

    PIPELINED = 1
    NON_PIPELINED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What words for a chip depend on: its classes, and the version of its QMD."""

    sm: int
    """Of compilers: 86."""
    sass: int
    """SASS_VERSION of a QMD: the SM's own version, 0x86. # src: tinygrad ops_nv.py sass_version"""
    gpfifo: int
    compute: int
    copy: int
    qmd: str
    max_shared_bytes: int
    shared_kib: tuple[int, ...]
    shared_window: int
    local_window: int

    @property
    def host(self) -> Methods:
        """Methods of the channel itself."""
        return methods_of(self.gpfifo)

    @property
    def engine(self) -> Methods:
        """Those of the compute class."""
        return methods_of(self.compute)

    @property
    def mover(self) -> Methods:
        """Those of the copy class."""
        return methods_of(self.copy)


def gp_entry(va: int, nwords: int) -> int:
    """The entry of a GPFIFO for words at an address. Raises: BadArgument."""
    if va % ENTRY_BYTES or not 0 < va < MAX_VA or not 0 < nwords <= MAX_SEGMENT_WORDS:
        raise BadArgument(f"a push buffer of {nwords} words at {va:#x}", hint="split the work")
    return va | _LEVEL_SUBROUTINE | nwords << ENTRY_LENGTH_SHIFT


def parse_entry(entry: int) -> tuple[int, int]:
    """(address, words) of an entry."""
    return entry & MAX_VA - ENTRY_BYTES, entry >> ENTRY_LENGTH_SHIFT & MAX_SEGMENT_WORDS


def _semaphore(target: Target, subchannel: int, va: int, value: int, execute: int) -> list[int]:
    upper, lower = high_low(va)
    high, low = high_low(value)
    return target.host.send(subchannel, "SEM_ADDR_LO", lower, upper, low, high, execute)


def release(
    target: Target, subchannel: int, *, va: int, value: int, timestamp: bool = False,
    wait: bool = True,
) -> list[int]:  # fmt: skip
    """When the engine is idle and its writes are visible: the 64-bit value, then the time.

    Without `wait`, at once.
    """
    execute = target.host.value(
        "SEM_EXECUTE", OPERATION=SemOp.RELEASE, RELEASE_WFI=int(wait), PAYLOAD_SIZE=1,
        RELEASE_TIMESTAMP=int(timestamp),
    )  # fmt: skip
    return _semaphore(target, subchannel, va, value, execute)


def acquire(target: Target, subchannel: int, *, va: int, value: int) -> list[int]:
    """Wait until the 64-bit value has reached `value`; others of the group may run meanwhile."""
    execute = target.host.value(
        "SEM_EXECUTE", OPERATION=SemOp.ACQ_CIRC_GEQ, ACQUIRE_SWITCH_TSG=1, PAYLOAD_SIZE=1
    )
    return _semaphore(target, subchannel, va, value, execute)


def wait_idle(target: Target, subchannel: int) -> list[int]:
    """Finish all work of the channel's engine before anything later begins."""
    return target.host.send(subchannel, "WFI", target.host.value("WFI", SCOPE=1))


def invalidate(target: Target) -> list[int]:
    """Later kernels see code, data and constants that others wrote."""
    methods = target.engine
    everything = methods.value(
        "INVALIDATE_SHADER_CACHES_NO_WFI", INSTRUCTION=1, GLOBAL_DATA=1, CONSTANT=1
    )
    return methods.send(Subchannel.COMPUTE, "INVALIDATE_SHADER_CACHES_NO_WFI", everything)


def compute_setup(target: Target) -> list[int]:
    """The first words of a compute channel: its class, and where special memory appears."""
    methods, channel = target.engine, Subchannel.COMPUTE
    return [
        *methods.send(channel, "SET_OBJECT", methods.value("SET_OBJECT", CLASS_ID=target.compute)),
        *methods.send(
            channel, "SET_SHADER_SHARED_MEMORY_WINDOW_A", *high_low(target.shared_window)
        ),
        *methods.send(channel, "SET_SHADER_LOCAL_MEMORY_WINDOW_A", *high_low(target.local_window)),
        *invalidate(target),
    ]


def local_memory(target: Target, *, va: int, tpc_bytes: int, sms: int) -> list[int]:
    """Memory for the private memory of all lanes: `tpc_bytes` for each pair of SMs."""
    methods, channel = target.engine, Subchannel.COMPUTE
    counts = methods.value("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C", MAX_SM_COUNT=sms)
    size = (*high_low(tpc_bytes), counts)
    return [
        *wait_idle(target, channel),
        *methods.send(channel, "SET_SHADER_LOCAL_MEMORY_A", *high_low(va)),
        *methods.send(channel, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A", *size),
    ]


def copy_setup(target: Target) -> list[int]:
    """The first words of a channel for copies."""
    number = target.host.value("SET_OBJECT", NVCLASS=target.copy)
    return target.host.send(Subchannel.COPY, "SET_OBJECT", number)


def copy(target: Target, *, dst: int, src: int, nbytes: int) -> list[int]:
    """One copy between addresses, after those before it. Raises: BadArgument."""
    if not 0 < nbytes <= COPY_MAX_BYTES:
        raise BadArgument(f"a copy of {nbytes} bytes", hint="split it")
    methods, channel = target.mover, Subchannel.COPY
    places = (*high_low(src), *high_low(dst))
    launch = methods.value(
        "LAUNCH_DMA", DATA_TRANSFER_TYPE=Transfer.NON_PIPELINED, FLUSH_ENABLE=1,
        SRC_MEMORY_LAYOUT=1, DST_MEMORY_LAYOUT=1,
    )  # fmt: skip
    return [
        *methods.send(channel, "OFFSET_IN_UPPER", *places, nbytes, nbytes, nbytes, 1),
        *methods.send(channel, "LAUNCH_DMA", launch),
    ]


COPY_NUMBERS: Final = 7
"""Words after the first of a copy: source and destination, upper word first, its bytes thrice."""


def copies(target: Target, *, dst: int, src: int, nbytes: int) -> list[int]:
    """As many copies as `nbytes` need."""
    words: list[int] = []
    for at in range(0, nbytes, COPY_MAX_BYTES):
        count = min(nbytes - at, COPY_MAX_BYTES)
        words += copy(target, dst=dst + at, src=src + at, nbytes=count)
    return words


def inline_upload(target: Target, *, va: int, data: bytes) -> list[int]:
    """Write whole words to memory from the push buffer itself (inline to memory)."""
    count = len(data) // ENTRY_BYTES * 2
    if len(data) % ENTRY_BYTES or not count:
        raise BadArgument(f"{len(data)} bytes inline", hint="pass whole 64-bit words")
    methods, channel = target.engine, Subchannel.COMPUTE
    launch = methods.value("LAUNCH_DMA", DST_MEMORY_LAYOUT=1, COMPLETION_TYPE=1)
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    return [
        *methods.send(channel, "LINE_LENGTH_IN", len(data), 1, *high_low(va)),
        *methods.send(channel, "LAUNCH_DMA", launch),
        *methods.stream(channel, "LOAD_INLINE_DATA", words),
    ]
