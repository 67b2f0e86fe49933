"""Names of registers that no part of the board models, by address: reports alone use them.

`register_names/*.txt` were made from Linux's headers and C files; each says from which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards.amd.cp.engine_types import Chip
from boards.amd.pci.ip_blocks import IpBlock, ip_blocks

_FOLDER = Path(__file__).parent / "register_names"
_FILES: Mapping[str, Mapping[tuple[int, ...], str]] = {
    "GC": {(11,): "gc_11_0_0", (12,): "gc_12_0_0", (9, 4): "gc_9_4_3"},
    "SDMA0": {(4, 4): "sdma_4_4_2"},
    "ATHUB": {(3, 0): "athub_3_0_0", (4, 1): "athub_4_1_0", (1, 8): "athub_1_8_0"},
    "DF": {(4, 3): "df_4_3", (4, 15): "df_4_15"},
    "HDP": {(6,): "hdp_6_0_0", (7,): "hdp_7_0_0", (4, 4): "hdp_4_4_2"},
    "LSDMA": {(6,): "lsdma_6_0_0", (7,): "lsdma_7_0_0"},
    "MMHUB": {
        (3, 0, 0): "mmhub_3_0_0", (3, 0, 2): "mmhub_3_0_2", (4, 1): "mmhub_4_1_0",
        (1, 8): "mmhub_1_8_0",
    },
    "MP0": {(13, 0, 6): "mp_13_0_6", (13,): "mp_13_0_2", (14,): "mp_14_0_2"},
    "MP1": {(13, 0, 6): "mp_13_0_6", (13,): "mp_13_0_2", (14,): "mp_14_0_2"},
    "NBIF": {(4, 3): "nbio_4_3_0", (6, 3): "nbif_6_3_1", (7, 9): "nbio_7_9_0"},
    "OSSSYS": {(6,): "osssys_6_0_0", (7,): "osssys_7_0_0", (4, 4): "osssys_4_4_2"},
    "SMUIO": {(13, 0, 3): "smuio_13_0_3", (13,): "smuio_13_0_6", (14,): "smuio_14_0_2"},
    "THM": {(13,): "thm_13_0_2", (14,): "thm_14_0_2"},
}  # fmt: skip
"""By block and the beginning of its version, the first that fits: the header which Linux's source
file for that version includes. src: amdgpu_discovery.c, soc21.c, soc24.c, and those files"""


@dataclass(frozen=True, slots=True)
class Named:
    """A register by Linux's name, and the functions of Linux that name it."""

    name: str
    segment: int
    offset_dw: int
    functions: tuple[str, ...]


@cache
def _file(name: str) -> tuple[Named, ...]:
    lines = (_FOLDER / f"{name}.txt").read_text("ascii").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return tuple(Named(name, int(at), int(off, 16), tuple(by)) for name, at, off, *by in rows)


def _of(ip: IpBlock) -> Iterator[Named]:
    """The registers of a block; of a file that two blocks share those with its prefixes."""
    for beginning, name in _FILES.get(ip.name, {}).items():
        if ip.version[: len(beginning)] == beginning:
            for one in _file(name):
                if not ip.prefixes or one.name.startswith(ip.prefixes):
                    yield one
            return


def named(chip: Chip) -> dict[int, tuple[str, Named]]:
    """By address in dwords: ("THM[0].THM_THERMAL_INT_ENA", the register).

    A segment whose base the chip's discovery binary does not list has no addresses.
    """
    found: dict[int, tuple[str, Named]] = {}
    for ip in ip_blocks(chip):
        for one in _of(ip):
            if one.segment < len(ip.bases_dw):
                address = ip.bases_dw[one.segment] + one.offset_dw
                found.setdefault(address, (f"{ip.name}[{ip.instance}].{one.name}", one))
    return found


def known_as(chip: Chip) -> Callable[[int], str]:
    """What reports call an address without a register; the table is made at the first one."""
    names: dict[int, tuple[str, Named]] = {}

    def name(address_dw: int) -> str:
        if not names:
            names.update(named(chip))
        found = names.get(address_dw)
        return found[0] if found is not None else f"dword {address_dw:#x}"

    return name
