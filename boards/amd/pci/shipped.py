"""Firmware files as AMD ships them: what pieces there are, by the header at each file's beginning.

Headers are the kernel's structs (firmware_headers.json); contents are never looked into.
# src: linux 6.12 amdgpu_ucode.c amdgpu_ucode_init_single_fw(); amdgpu_rlc.c
# amdgpu_gfx_rlc_init_microcode(); amdgpu_psp.c parse_sos_bin_descriptor() and
# parse_ta_bin_descriptor()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from boards.amd.chip_data import NUMBERS
from boards.amd.pci.firmware_file import ENUMS, HEADERS
from boards.amd.pci.firmware_maker import RLC_PARTS
from boards.amd.pci.images import Shipped

_MOST_BYTES = 16 << 20
_MOST_PIECES = 64
_PIPES = 4
Piece = tuple[str, bytes]


class BadFile(ValueError):
    """A file that is not what its name says; the message says why."""


class _File:
    """A file, its version and the fields of its header."""

    def __init__(self, path: Path) -> None:
        self.name, self.data = path.name, path.read_bytes()
        if len(self.data) > _MOST_BYTES:
            raise BadFile(f"{self.name}: {len(self.data)} bytes")
        self._fields: dict[str, list[int]] = HEADERS["structs"]["common_firmware_header"]["fields"]
        self.version = self.field("header_version_major"), self.field("header_version_minor")

    def struct(self, name: str) -> int:
        """Take the fields of a longer header; its size. Raises: BadFile for a version unknown."""
        full = "{}_v{}_{}".format(name, *self.version)
        if full not in HEADERS["structs"]:
            raise BadFile(f"{self.name}: no {full}")
        self._fields = HEADERS["structs"][full]["fields"]
        return int(HEADERS["structs"][full]["size"])

    def has(self, name: str) -> bool:
        """Whether the header has a field."""
        return any(field.rpartition(".")[2] == name for field in self._fields)

    def field(self, name: str) -> int:
        """A field by its name, or by the last part of it. Raises: BadFile behind the end."""
        places = [p for f, p in self._fields.items() if f.endswith(f".{name}")]
        at, size = self._fields.get(name) or places[0]
        return self.number(at, size)

    def number(self, at: int, size: int = 4) -> int:
        """A number of the header or of a list. Raises: BadFile."""
        return int.from_bytes(self.piece(at, size), "little")

    def piece(self, at: int, nbytes: int) -> bytes:
        """Raises: BadFile for one that is not whole."""
        if at + nbytes > len(self.data):
            raise BadFile(f"{self.name}: {nbytes} bytes at {at}, of {len(self.data)}")
        return self.data[at : at + nbytes]

    @property
    def array(self) -> int:
        """Where the contents begin."""
        return self.field("ucode_array_offset_bytes")


def _described(file: _File, struct: str, prefix: str, count: str) -> Iterator[Piece]:
    """Pieces of a list of descriptors: kind, version, offset, size."""
    at = file.struct(struct)
    names = {v: k.removeprefix(prefix) for k, v in ENUMS.items() if k.startswith(prefix)}
    if file.field(count) > _MOST_PIECES:
        raise BadFile(f"{file.name}: {file.field(count)} pieces")
    for number in range(file.field(count)):
        kind, _, offset, nbytes = (file.number(at + 16 * number + 4 * word) for word in range(4))
        if kind in names and nbytes:
            yield names[kind], file.piece(file.array + offset, nbytes)


def _psp(file: _File) -> Iterator[Piece]:
    yield from _described(file, "psp_firmware_header", "PSP_FW_TYPE_PSP_", "psp_fw_bin_count")


def _applications(file: _File) -> Iterator[Piece]:
    yield from _described(file, "ta_firmware_header", "TA_FW_TYPE_PSP_", "ta_fw_bin_count")


def _smu(file: _File) -> Iterator[Piece]:
    yield "SMU", file.piece(file.array, file.field("ucode_size_bytes"))


def _sdma(file: _File) -> Iterator[Piece]:
    file.struct("sdma_firmware_header")
    if file.version[0] == 3:
        yield "SDMA_UCODE_TH0", file.piece(file.array, file.field("ucode_size_bytes"))
        return
    yield "SDMA_UCODE_TH0", file.piece(file.array, file.field("ctx_ucode_size_bytes"))
    at = file.field("ctl_ucode_offset")
    yield "SDMA_UCODE_TH1", file.piece(at, file.field("ctl_ucode_size_bytes"))


def _rs64(core: str) -> Callable[[_File], Iterator[Piece]]:
    def pieces(file: _File) -> Iterator[Piece]:
        file.struct("gfx_firmware_header")
        yield f"RS64_{core}", file.piece(file.array, file.field("ucode_size_bytes"))
        data = file.piece(file.field("data_offset_bytes"), file.field("data_size_bytes"))
        for pipe in range(_PIPES):
            yield f"RS64_{core}_P{pipe}_STACK", data

    return pieces


def _mes(code: str, stack: str) -> Callable[[_File], Iterator[Piece]]:
    def pieces(file: _File) -> Iterator[Piece]:
        file.struct("mes_firmware_header")
        for kind, prefix in ((code, "mes_ucode"), (stack, "mes_ucode_data")):
            at, nbytes = file.field(f"{prefix}_offset_bytes"), file.field(f"{prefix}_size_bytes")
            yield kind, file.piece(at, nbytes)

    return pieces


def _imu(file: _File) -> Iterator[Piece]:
    file.struct("imu_firmware_header")
    code = file.field("imu_iram_ucode_size_bytes")
    yield "IMU_I", file.piece(file.array, code)
    yield "IMU_D", file.piece(file.array + code, file.field("imu_dram_ucode_size_bytes"))


def _rlc(file: _File) -> Iterator[Piece]:
    yield "RLC_G", file.piece(file.array, file.field("ucode_size_bytes"))
    file.struct("rlc_firmware_header")
    for prefix, (kind, _) in RLC_PARTS.items():
        if file.has(f"{prefix}_size_bytes") and file.field(f"{prefix}_size_bytes"):
            at, nbytes = file.field(f"{prefix}_offset_bytes"), file.field(f"{prefix}_size_bytes")
            yield kind, file.piece(at, nbytes)


_BY_NAME: dict[str, Callable[[_File], Iterator[Piece]]] = {
    "psp_{mp}_sos.bin": _psp, "psp_{mp}_ta.bin": _applications, "smu_{mp}.bin": _smu,
    "sdma_{sdma}.bin": _sdma, "gc_{gc}_pfp.bin": _rs64("PFP"), "gc_{gc}_me.bin": _rs64("ME"),
    "gc_{gc}_mec.bin": _rs64("MEC"), "gc_{gc}_imu.bin": _imu, "gc_{gc}_rlc.bin": _rlc,
    "gc_{gc}_rlc_1.bin": _rlc, "gc_{gc}_mes.bin": _mes("CP_MES", "MES_STACK"),
    "gc_{gc}_mes_2.bin": _mes("CP_MES", "MES_STACK"),
    "gc_{gc}_mes1.bin": _mes("CP_MES_KIQ", "MES_KIQ_STACK"),
    "gc_{gc}_uni_mes.bin": _mes("CP_MES", "MES_STACK"),
}  # fmt: skip


def names(arch: str) -> list[str]:
    """Every file that a chip's driver may ask for. Raises: KeyError for an unknown chip."""
    n = NUMBERS[arch]
    parts = {"mp": n.mp, "sdma": n.sdma, "gc": n.gc}
    words = {key: "_".join(str(part) for part in version) for key, version in parts.items()}
    return [name.format(**words) for name in _BY_NAME]


def load(folder: Path, arch: str) -> Shipped:
    """The pieces of a chip's files, of those that are there. Raises: BadFile, OSError."""
    pieces: dict[str, list[bytes]] = {}
    starts: dict[str, int] = {}
    for name, form in zip(names(arch), _BY_NAME.values(), strict=True):
        path = folder / name
        if not path.exists():
            continue
        file = _File(path)
        for kind, piece in form(file):
            pieces.setdefault(kind, []).append(piece)
        if file.has("ucode_start_addr_hi"):
            low, high = file.field("ucode_start_addr_lo"), file.field("ucode_start_addr_hi")
            starts[next(iter(form(file)))[0]] = low | high << 32
    if "SOS" not in pieces:
        raise BadFile(f"{folder} has no firmware of {arch}'s security processor")
    return Shipped(pieces, starts)
