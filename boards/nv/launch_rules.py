"""What a launch descriptor may say: rules that stop a grid, and rules that are only reported.

Stopping rules are those that the hardware's scheduler checks (SKEDCHECK errors of Xid 13) or that
leave nothing to run. src: open-gpu-doc cl*qmd.h; CUDA C Programming Guide, compute capabilities;
Mesa src/nouveau/compiler/nak/qmd.rs; notes sections 1.4 and 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from boards.nv.chip import NvChip
from boards.nv.qmd import BankSlot, Qmd
from boards.nv.space import GpuSpace

_MOST_THREADS, _MOST_Z = 1024, 64
_MOST_BLOCKS_YZ = 65535
_MOST_REGISTERS, _FILE_REGISTERS, _REGISTERS_UNIT, _WARP = 255, 65536, 256, 32
_WARPS_UNIT = 4
_MOST_BARRIERS = 16
_SHARED_UNIT, _CODE_ALIGN, _BANK_ALIGN = 128, 128, 64
_BANK_BYTES = 64 << 10
_CONFIG_KIB = 4
_LAUNCH_GRIDS = (2, 3, 4, 5)
"""QMD_TYPE_GRID_CTA and those with clusters."""


@dataclass(frozen=True, slots=True)
class LocalMemory:
    """What the driver has given to the threads of a TPC."""

    va: int
    bytes_per_tpc: int


def impossible(qmd: Qmd, chip: NvChip, local: LocalMemory | None) -> Iterator[str]:
    """Why a descriptor cannot be launched."""
    major, minor = (int(part) for part in qmd.version.split("_"))
    if (qmd.major, qmd.minor) != (major, minor):
        yield f"descriptor version {qmd.major}.{qmd.minor}, not {major}.{minor}"
    if qmd.has("QMD_TYPE") and qmd.get("QMD_TYPE") not in _LAUNCH_GRIDS:
        yield f"descriptor type {qmd.get('QMD_TYPE')}"
    if not all(qmd.grid) or max(qmd.grid[1:]) > _MOST_BLOCKS_YZ:
        yield f"a grid of {qmd.grid} blocks"
    threads = prod(qmd.block)
    if not 0 < threads <= _MOST_THREADS or qmd.block[2] > _MOST_Z:
        yield f"a block of {qmd.block} threads"
    yield from _registers(qmd, threads)
    yield from _shared(qmd, chip)
    if qmd.first("BARRIER_COUNT") > _MOST_BARRIERS:
        yield f"{qmd.first('BARRIER_COUNT')} barriers"
    if qmd.code_va % _CODE_ALIGN:
        yield f"code at {qmd.code_va:#x}, which is no multiple of {_CODE_ALIGN}"
    if qmd.local_bytes:
        wanted = qmd.local_bytes * _WARP * chip.warps * 2
        if local is None or wanted > local.bytes_per_tpc:
            have = local.bytes_per_tpc if local is not None else 0
            yield f"local memory: {wanted:#x} bytes for a TPC, which has {have:#x}"


def _registers(qmd: Qmd, threads: int) -> Iterator[str]:
    if not 0 < qmd.registers <= _MOST_REGISTERS:
        yield f"{qmd.registers} registers"
        return
    warps = -(-max(threads, 1) // _WARP // 1)
    rounded = -(-qmd.registers * _WARP // _REGISTERS_UNIT) * _REGISTERS_UNIT
    warps = -(-warps // _WARPS_UNIT) * _WARPS_UNIT
    if rounded * warps > _FILE_REGISTERS:
        yield f"{qmd.registers} registers for {threads} threads"


def _shared(qmd: Qmd, chip: NvChip) -> Iterator[str]:
    if qmd.shared_bytes % _SHARED_UNIT or qmd.shared_bytes > chip.shared_bytes:
        yield f"{qmd.shared_bytes} bytes of shared memory"
    low, best, high = qmd.shared_config
    if not low <= best <= high:
        yield f"shared memory split {low} <= {best} <= {high}"
    elif qmd.shared_bytes > (best - 1) * _CONFIG_KIB << 10:
        yield f"{qmd.shared_bytes} bytes of shared memory in a split of {(best - 1) * 4} KiB"


def doubtful(qmd: Qmd, chip: NvChip, space: GpuSpace) -> Iterator[tuple[str, str]]:
    """(kind, what) of things that silicon may let pass, and that are wrong."""
    if qmd.unnamed:
        low = (qmd.unnamed & -qmd.unnamed).bit_length() - 1
        yield "bits of a descriptor that have no name", f"bit {low}"
    if qmd.get("SASS_VERSION") != chip.sass_version:
        yield "SASS version of another GPU", f"{qmd.get('SASS_VERSION'):#x}"
    if (qmd.shared_config[1] - 1) * _CONFIG_KIB not in chip.shared_kib:
        yield "shared memory split that the SM does not have", f"{qmd.shared_config[1]}"
    for bank in qmd.banks():
        yield from _bank(bank, space)


def _bank(bank: BankSlot, space: GpuSpace) -> Iterator[tuple[str, str]]:
    name = f"bank {bank.index}"
    if bank.va % _BANK_ALIGN:
        yield "constant bank that is not aligned", f"{name} at {bank.va:#x}"
    if bank.nbytes > _BANK_BYTES:
        yield "constant bank of more than 64 KiB", f"{name}: {bank.nbytes:#x} bytes"
    if not bank.nbytes:
        yield "valid constant bank without bytes", name
        return
    mapping = space.find(bank.va)
    if mapping is None or bank.va + bank.nbytes > mapping.end:
        yield "constant bank beyond its buffer", f"{name}: {bank.nbytes:#x} bytes"
