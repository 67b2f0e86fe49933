"""Launch descriptors (QMD): fields of four versions, and the one form that a launch needs.

The bit ranges are generators.board_qmd's, from the headers that NVIDIA publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "qmd_fields"
_BANKS = 8
_RELEASES = 3
_DEPENDENTS = 2
_COPIES = {"CONSTANT_BUFFER": _BANKS, "RELEASE": _RELEASES, "DEPENDENT": _DEPENDENTS}
_MOST_COPIES = 16
_SHIFTED4, _SHIFTED6, _SHIFTED7, _SHIFTED8 = 4, 6, 7, 8


@dataclass(frozen=True, slots=True)
class QmdField:
    """A bit range; the n-th copy is `stride` bits further each."""

    low: int
    high: int
    stride: int = 0


@cache
def fields(version: str) -> Mapping[str, QmdField]:
    """Every field of a version, by the header's name."""
    found = {}
    for line in (_FOLDER / f"{version}.txt").read_text("ascii").splitlines():
        if line.startswith("#"):
            continue
        name, bits, *more = line.split()
        low, high = bits.split(":")
        found[name] = QmdField(int(low), int(high), int(more[0]) if more else 0)
    return found


@cache
def named_bits(version: str) -> int:
    """Every bit that a version has a name for, reserved ones left out."""
    mask = 0
    for name, field in fields(version).items():
        if "RESERVED" in name:
            continue
        copies = next((n for start, n in _COPIES.items() if name.startswith(start)), _MOST_COPIES)
        one = (1 << field.high - field.low + 1) - 1
        for copy in range(copies if field.stride else 1):
            mask |= one << field.low + copy * field.stride
    return mask


@dataclass(frozen=True, slots=True)
class BankSlot:
    """A constant buffer of a descriptor."""

    index: int
    va: int
    nbytes: int
    invalidate: bool


@dataclass(frozen=True, slots=True)
class QmdRelease:
    """A semaphore that is released when the grid has ended."""

    va: int
    payload: int
    words: int
    wide: bool
    reduction: int | None
    signed: bool
    trap: int


@dataclass(frozen=True, slots=True)
class Dependent:
    """A descriptor that is scheduled when the grid has ended."""

    va: int
    action: int


class Qmd:
    """A descriptor's bytes, read by the names of its version."""

    def __init__(self, version: str, data: bytes) -> None:
        self.version = version
        self._fields = fields(version)
        self._value = int.from_bytes(data, "little")

    def has(self, name: str) -> bool:
        """Whether the version has a field."""
        return name in self._fields

    def get(self, name: str, copy: int = 0) -> int:
        """A field's value. Raises: KeyError."""
        field = self._fields[name]
        low = field.low + copy * field.stride
        return self._value >> low & (1 << field.high - field.low + 1) - 1

    def first(self, *names: str) -> int:
        """Of the first of several names that the version has; _SHIFTEDn ones are shifted back."""
        for name in names:
            if name in self._fields:
                _, _, shift = name.rpartition("_SHIFTED")
                return self.get(name) << (int(shift) if shift.isdigit() else 0)
        return 0

    @property
    def unnamed(self) -> int:
        """Bits that are set and have no name."""
        return self._value & ~named_bits(self.version)

    @property
    def major(self) -> int:
        """QMD_MAJOR_VERSION."""
        return self.get("QMD_MAJOR_VERSION")

    @property
    def minor(self) -> int:
        """QMD_VERSION, later QMD_MINOR_VERSION."""
        return self.first("QMD_VERSION", "QMD_MINOR_VERSION")

    @property
    def code_va(self) -> int:
        """Where the code begins."""
        if self.has("PROGRAM_ADDRESS_LOWER"):
            return self.get("PROGRAM_ADDRESS_LOWER") | self.get("PROGRAM_ADDRESS_UPPER") << 32
        low = self.get("PROGRAM_ADDRESS_LOWER_SHIFTED4")
        return (low | self.get("PROGRAM_ADDRESS_UPPER_SHIFTED4") << 32) << _SHIFTED4

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks."""
        name = "GRID_" if self.has("GRID_WIDTH") else "CTA_RASTER_"
        return self.get(f"{name}WIDTH"), self.get(f"{name}HEIGHT"), self.get(f"{name}DEPTH")

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block."""
        one, two, three = (self.get(f"CTA_THREAD_DIMENSION{n}") for n in range(3))
        return one, two, three

    @property
    def registers(self) -> int:
        """Of a thread."""
        return self.first("REGISTER_COUNT_V", "REGISTER_COUNT")

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return self.first("SHARED_MEMORY_SIZE", "SHARED_MEMORY_SIZE_SHIFTED7")

    @property
    def shared_config(self) -> tuple[int, int, int]:
        """Smallest, wanted and largest split of the SM's memory, as the fields have it."""
        low, best, high = (
            self.first(f"{name}_SM_CONFIG_SHARED_MEM_SIZE") for name in ("MIN", "TARGET", "MAX")
        )
        return low, best, high

    def _local(self, end: str) -> int:
        return self.first(
            f"SHADER_LOCAL_MEMORY_{end}_SIZE", f"SHADER_LOCAL_MEMORY_{end}_SIZE_SHIFTED4"
        )

    @property
    def local_bytes(self) -> int:
        """Of a thread."""
        return self._local("LOW") + self._local("HIGH")

    @property
    def local_high_bytes(self) -> int:
        """Those of them at the end of its local addresses."""
        return self._local("HIGH")

    def banks(self) -> Iterator[BankSlot]:
        """The constant buffers that are valid."""
        for index in range(_BANKS):
            if not self.get("CONSTANT_BUFFER_VALID", index):
                continue
            shift = 0 if self.has("CONSTANT_BUFFER_ADDR_LOWER") else _SHIFTED6
            end = "_SHIFTED6" if shift else ""
            low = self.get(f"CONSTANT_BUFFER_ADDR_LOWER{end}", index)
            high = self.get(f"CONSTANT_BUFFER_ADDR_UPPER{end}", index)
            yield BankSlot(
                index,
                (low | high << 32) << shift,
                self.get("CONSTANT_BUFFER_SIZE_SHIFTED4", index) << _SHIFTED4,
                bool(self.get("CONSTANT_BUFFER_INVALIDATE", index)),
            )

    def releases(self) -> Iterator[QmdRelease]:
        """The semaphores that are enabled."""
        for index in range(_RELEASES):
            if self._release_enabled(index):
                yield self._release(index)

    def _release_enabled(self, index: int) -> bool:
        if self.has("RELEASE_ENABLE"):
            return bool(self.get("RELEASE_ENABLE", index))
        names = (f"RELEASE{index}_ENABLE", f"SEMAPHORE_RELEASE_ENABLE{index}")
        return bool(self.first(*names))

    def _release(self, index: int) -> QmdRelease:
        def part(name: str) -> int:
            if self.has(f"RELEASE_{name}"):
                return self.get(f"RELEASE_{name}", index)
            return self.first(f"RELEASE{index}_{name}")

        older = self.has(f"RELEASE{index}_ADDRESS_LOWER")
        address = f"RELEASE{index}_ADDRESS" if older else f"RELEASE_SEMAPHORE{index}_ADDR"
        payload = f"RELEASE{index}_PAYLOAD" if older else f"RELEASE_SEMAPHORE{index}_PAYLOAD"
        single = f"RELEASE{index}_PAYLOAD"
        low = self.first(f"{payload}_LOWER", single)
        return QmdRelease(
            va=self.get(f"{address}_LOWER") | self.get(f"{address}_UPPER") << 32,
            payload=low | self.first(f"{payload}_UPPER") << 32,
            words=(4, 1, 2, 0)[part("STRUCTURE_SIZE")],
            wide=bool(part("PAYLOAD64B")),
            reduction=part("REDUCTION_OP") if part("REDUCTION_ENABLE") else None,
            signed=part("REDUCTION_FORMAT") == 1,
            trap=part("TRAP_TYPE"),
        )

    def dependents(self) -> Iterator[Dependent]:
        """Descriptors that follow."""
        if self.has("DEPENDENT_QMD_SCHEDULE_ENABLE"):
            if self.get("DEPENDENT_QMD_SCHEDULE_ENABLE"):
                yield Dependent(self.get("DEPENDENT_QMD_POINTER") << _SHIFTED8, 1)
            return
        for index in range(_DEPENDENTS):
            if not self.has(f"DEPENDENT_QMD{index}_POINTER"):
                continue
            if self.has(f"DEPENDENT_QMD{index}_ENABLE"):
                enable = self.get(f"DEPENDENT_QMD{index}_ENABLE")
                action = self.get(f"DEPENDENT_QMD{index}_ACTION")
            else:
                enable = self.get("DEPENDENT_QMD_ENABLE", index)
                action = self.get("DEPENDENT_QMD_ACTION", index)
            if enable:
                yield Dependent(self.get(f"DEPENDENT_QMD{index}_POINTER") << _SHIFTED8, action)
