"""What a client asked of the board: ioctls, queries, files; what was refused, what is absent."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from boards.amd.drm import types as d
from boards.amd.kfd import types as k

_NR_MASK = 0xFF
_INFO_NR, _QUERY_AT = 0x45, 12
"""src: amdgpu_drm.h DRM_AMDGPU_INFO with DRM_COMMAND_BASE, struct drm_amdgpu_info.query"""
_ALLOC, _ALLOC_FLAGS_AT = 0x16, 36
"""src: kfd_ioctl.h AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, struct kfd_ioctl_alloc_memory_of_gpu_args"""
_FLAGS = {
    # src: kfd_ioctl.h KFD_IOC_ALLOC_MEM_FLAGS_*
    k.VRAM: "VRAM", k.GTT: "GTT", k.USERPTR: "USERPTR", k.DOORBELL: "DOORBELL",
    k.MMIO_REMAP: "MMIO_REMAP", k.WRITABLE: "WRITABLE", k.EXECUTABLE: "EXECUTABLE",
    k.PUBLIC: "PUBLIC", k.AQL_QUEUE_MEM: "AQL_QUEUE_MEM", k.COHERENT: "COHERENT",
    k.UNCACHED: "UNCACHED", k.EXT_COHERENT: "EXT_COHERENT", 1 << 28: "NO_SUBSTITUTE",
    1 << 23: "CONTIGUOUS",
}  # fmt: skip
_DRM_NAMES = {0x00: "VERSION", 0x0C: "GET_CAP", _INFO_NR: "AMDGPU_INFO"}
_KFD_NAMES = {
    # src: kfd_ioctl.h of Linux 6.12; those that a board does not have
    0x06: "get_process_apertures", 0x0D: "dbg_register", 0x0E: "dbg_unregister",
    0x0F: "dbg_address_watch", 0x10: "dbg_wave_control", 0x12: "get_tile_config",
    0x1B: "get_queue_wave_state", 0x1E: "alloc_queue_gws",
    0x1F: "smi_events", 0x22: "criu_op", 0x26: "dbg_trap",
} | {number: name for number, (name, _) in k.IOCTLS.items()}  # fmt: skip


def request_name(request: int, kfd: bool, argument: bytes) -> str:
    """An ioctl in words: "kfd map_memory_to_gpu", "drm AMDGPU_INFO 0x16"."""
    number = request & _NR_MASK
    if kfd:
        return f"kfd {_KFD_NAMES.get(number, hex(number))}"
    name = _DRM_NAMES.get(number, hex(number))
    if number == _INFO_NR and len(argument) >= d.INFO.size:
        (query,) = struct.unpack_from("<I", argument, _QUERY_AT)
        name += f" {query:#x}"
    return f"drm {name}"


@dataclass
class Report:
    """What came of one run in front of a board."""

    violations: list[tuple[str, str]] = field(default_factory=list)
    """Kind, and the whole text."""
    ioctls: dict[str, int] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    """Of ALLOC_MEMORY_OF_GPU."""
    refused: dict[str, int] = field(default_factory=dict)
    absent_files: dict[str, int] = field(default_factory=dict)
    files: int = 0
    """How many of the kernel's files were there and used."""
    faults: list[str] = field(default_factory=list)
    """Why queues stopped, as the board has it."""
    queues_left: list[str] = field(default_factory=list)
    ended_early: bool = False
    """The client ended itself, because its runtime did not return."""
    troubles: list[str] = field(default_factory=list)
    """What the shim cannot do as the kernel does."""

    @classmethod
    def load(cls, path: Path) -> Report:
        """Raises: FileNotFoundError where the client ended without its board."""
        return cls(**json.loads(path.read_text()))


class Record:
    """Counts while the client runs."""

    def __init__(self) -> None:
        self._ioctls: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._absent: Counter[str] = Counter()
        self._files: set[str] = set()
        self._flags: set[str] = set()
        self._faults: list[str] = []
        self.troubles: list[str] = []
        self.ended_early = False

    def event(self, name: str, facts: dict[str, int | str]) -> None:
        """The board's timeline; of it, queues that stop."""
        if name == "queue fault":
            self._faults.append(f"queue {facts['queue']}: {facts['why']}")

    def file(self, path: str, *, there: bool) -> None:
        """A file that was opened, listed or asked for."""
        if there:
            self._files.add(path)
        else:
            self._absent[path] += 1

    def ioctl(self, request: int, kfd: bool, argument: bytes) -> None:
        """A command, before it runs."""
        self._ioctls[request_name(request, kfd, argument)] += 1
        if kfd and request & _NR_MASK == _ALLOC:
            (flags,) = struct.unpack_from("<I", argument, _ALLOC_FLAGS_AT)
            bits = [1 << bit for bit in range(32) if flags >> bit & 1]
            self._flags.update(_FLAGS.get(bit, hex(bit)) for bit in bits)

    def refused(self, request: int, kfd: bool, argument: bytes, error: OSError) -> None:
        """A command that the board answered with an error."""
        self._refused[f"{request_name(request, kfd, argument)}: {error}"] += 1

    def trouble(self, text: str) -> None:
        """Something that this shim and the kernel do differently."""
        if text not in self.troubles:
            self.troubles.append(text)

    def write(
        self, path: Path, violations: Sequence[tuple[str, str]], queues_left: Sequence[str]
    ) -> None:
        """The report, as JSON."""
        report = Report(
            violations=list(violations), ioctls=dict(self._ioctls), flags=sorted(self._flags),
            refused=dict(self._refused), absent_files=dict(self._absent), files=len(self._files),
            faults=self._faults, queues_left=list(queues_left), ended_early=self.ended_early,
            troubles=self.troubles,
        )  # fmt: skip
        path.write_text(json.dumps(asdict(report), indent=1))
