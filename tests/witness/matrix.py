"""The fault matrix: one fault after the other, as ROCr and as our driver report it.

Both run the same kernels on the same kind of board, each in a process or on a board of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boards.amd.machine import Options, open_board
from compilers.amd import code_object
from drivers.amd.aql_ring import AqlRing
from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.base.errors import DeviceError, DeviceFault
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from tests.witness.expected import surprises
from tests.witness.record import Report
from tests.witness.rocr import Client

PAGE = Path(__file__).parents[2] / "docs/witnesses.md"
"""Has the table, which a run compares with what it sees."""
NOWHERE = 0x1000_0000
_BLOCK = 256
_PACKET_TYPE, _PACKET_BYTES = 9, 64
_LIMIT_S = 120


@dataclass(frozen=True)
class Kind:
    """A fault: how both make it, and what each has to report. All texts are patterns."""

    name: str
    kernel: str
    """"" for one of the board's panel, or a packet."""
    rocr: str
    """src: hsa.h, hsa_ext_amd.h: hsa_status_t and hsa_amd_memory_fault_reason_t by number."""
    driver: str
    older: str = ""
    """Of ROCr 5, where it differs: its trap handlers halt the wave and report nothing, and it has
    no event for a reset. src: trap_handler.s and runtime.cpp of 5.2.3"""


_NOTHING = r"nothing$"
_PRINTED = r"Queue error - MEMORY_FAULT"
_SLOW = "the runtime does not return"
"""After a misaligned atomic never, and after a reset of the GPU not always."""
KINDS = (
    Kind(
        "read",
        "load_at",
        r"memory fault at 0x10000000 mask 0x1\b",
        r"unmapped 0x10000000, load_at, compute$",
    ),
    Kind(
        "write",
        "store_at",
        r"memory fault at 0x10000000 mask 0x3\b",
        r"unmapped 0x10000000, store_at, compute$",
    ),
    Kind(
        "execute",
        "jump_to",
        r"memory fault at 0x10000000 mask 0x1\b",
        r"unmapped 0x10000000, jump_to, compute$",
    ),
    Kind("illegal", "illegal", r"0x2a ", r"illegal instruction, illegal, compute$", _NOTHING),
    Kind("trap", "trap", r"0x1016 ", r"s_trap 2, trap, compute$", _NOTHING),
    Kind("misaligned", "misaligned", _PRINTED, r"memory violation, misaligned, compute$", _NOTHING),
    Kind("packet", "", r"0x1009 ", r"bad packet, no kernel, compute$"),
    Kind("ecc", "", r"memory fault at 0 mask 0x60\b", r"ECC, load_at, compute$"),
    Kind("gpu_reset", "", r"event 1\b", r"GPU hang, load_at, compute$", _NOTHING),
)


@dataclass
class Row:
    """One fault in front of one chip."""

    kind: Kind
    rocr: str
    driver: str
    report: Report
    wrong: list[str] = field(default_factory=list)

    def cells(self, chip: str) -> str:
        """The row of the page's table."""
        return f"| {chip} | {self.kind.name} | {self.rocr} | {self.driver} |"

    def __str__(self) -> str:
        outcome = f"  WRONG: {'; '.join(self.wrong)}" if self.wrong else ""
        return f"{self.kind.name:11} ROCr: {self.rocr}; our driver: {self.driver}{outcome}"


def rows(client: Client) -> Iterator[Row]:
    """Every kind on the client's chip."""
    for kind in KINDS:
        done = client.go(kind.name, limit_s=_LIMIT_S)
        words = [*done.said("said"), *(line for line in done.lines if "Queue error" in line)]
        heard = "; ".join(sorted({_shorter(word) for word in words if _counts(word)}))
        row = Row(kind, heard or "nothing", _driver(client, kind), done.report)
        wanted = kind.older if kind.older and client.version.startswith("5.") else kind.rocr
        if not re.search(wanted, row.rocr):
            row.wrong.append(f"ROCr: wanted {wanted!r}")
        if not re.match(kind.driver, row.driver):
            row.wrong.append(f"our driver: wanted {kind.driver!r}")
        if done.code:
            row.wrong.append(f"exit status {done.code}")
        row.wrong += surprises(done.report)
        if row.cells(client.setup.chip) not in PAGE.read_text().splitlines():
            row.wrong.append(f"not in {PAGE.name}: {row.cells(client.setup.chip)}")
        yield row


def _counts(text: str) -> bool:
    """Not what depends on how fast this machine is."""
    return "completion signal" not in text and text != _SLOW


def _shorter(text: str) -> str:
    return text.split(":")[0].removeprefix("queue error ").replace("HSA_STATUS_ERROR_", "")


def _driver(client: Client, kind: Kind) -> str:
    """What our driver raises: kind, address, kernel and queue."""
    board: Any = open_board(client.setup.chip, options=Options(evict_on_fault=True))
    device = open_amd(ForeignWorld(board), choose({"DEV": "AMD:0", "AMD_AQL": "1"}))
    try:
        if kind.kernel:
            _launch(client, device, kind.kernel)
        elif kind.name == "packet":
            _bad_packet(device)
        else:
            board.panel.hang(device.compute.hw.queue_id)  # so that a kernel is not finished
            _launch(client, device, "load_at", address=device.alloc(_BLOCK).gpu_va)
            getattr(board.panel, kind.name)()
        device.synchronize()
    except DeviceFault as fault:
        at = f" {fault.gpu_va:#x}" if fault.gpu_va else ""
        queue = fault.queue.removeprefix("AMD:0 ").removesuffix(" queue")
        return f"{fault.kind}{at}, {fault.kernel or 'no kernel'}, {queue or 'no queue'}"
    except DeviceError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        device.close()
    return "nothing"


def _launch(client: Client, device: AmdDevice, kernel: str, address: int = NOWHERE) -> None:
    binary = code_object.load(client.kernels.read_bytes(), kernel, client.setup.chip)
    buffer = device.alloc(1 << 16)
    values = {
        "load_at": [address, buffer.gpu_va], "store_at": [address], "jump_to": [address],
    }.get(kernel, [buffer.gpu_va])  # fmt: skip
    device.launch(device.load(binary.in_blocks_of(_BLOCK)), values, 1)


def _bad_packet(device: AmdDevice) -> None:
    """A packet of type 9, which there is none of."""
    ring = device.compute
    if not isinstance(ring, AqlRing):
        raise TypeError("not a queue of AQL packets")
    with ring.lock:
        ring.play(memoryview(_PACKET_TYPE.to_bytes(_PACKET_BYTES, "little")))
