"""Adreno chips as data: how each is known, how large its parts are, its fixed register values.

# src: Mesa 25.0.7, src/freedreno/common/freedreno_devices.py; `sp_cores` is its num_ccu, as there
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import Unsupported
from queues.qcom.registers import GEN6, GEN7

KIB: Final = 1024
MAX_CONSTLEN: Final = 512
"""vec4 of the constant file of compute, at most."""
_CONSTANTS: Final = 256
MAX_BLOCK: Final = 1024
"""Lanes of a workgroup. # src: Mesa tu_device.cc, maxComputeWorkGroupSize"""
MAX_GRID: Final = (65535, 65535, 65535)
"""# src: Mesa tu_device.cc, maxComputeWorkGroupCount"""
SPEED_BIN_SHIFT: Final = 32
_REVISION_MASK: Final = 0xFF
TICKS_HZ: Final = 19_200_000
"""Of CP_ALWAYS_ON_COUNTER. # src: Mesa tu_device.cc, timestampPeriod"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip."""

    name: str
    generation: int
    chip_id: int
    """As KGSL and msm report it, without the speed bin."""
    sp_cores: int
    fibers_per_sp: int
    """Lanes that one may have under way: so many private memories."""
    icache_units: int
    """Units of 128 bytes of its instruction cache."""
    magic: Mapping[str, int]
    """Registers with a value that Qualcomm's own driver gives them."""
    shared_bytes: int = 32 * KIB
    has_lpac: bool = True
    """Whether it has the second set of compute registers (since the fourth of generation 6)."""
    wide_waves: bool = True
    """Waves of 128 lanes."""
    more_ids: tuple[int, ...] = ()
    """Of other chips that have this row."""
    also: tuple[str, ...] = ()
    """What those are called."""
    constlen_quirk: bool = False
    """Whether compute has no more constants than on generation 6."""
    cche: bool = False
    """A cache between processors and the L2 (UCHE) that is invalidated by a packet of its own."""

    @property
    def most_constants(self) -> int:
        """vec4 of a kernel's constants. # src: Mesa ir3_compiler.c, max_const_compute"""
        return _CONSTANTS if self.generation == GEN6 or self.constlen_quirk else MAX_CONSTLEN


def _gen6(
    chicken: int, sp_eco: int, tpl1: int, client: int, uche: int, hlsq: int = 0
) -> dict[str, int]:
    return {
        "SP_CHICKEN_BITS": chicken, "SP_DBG_ECO_CNTL": sp_eco, "TPL1_DBG_ECO_CNTL": tpl1,
        "UCHE_CLIENT_PF": client, "UCHE_UNKNOWN_0E12": uche, "HLSQ_DBG_ECO_CNTL": hlsq,
        "TPL1_UNKNOWN_B605": 0x44, "HLSQ_UNKNOWN_BE00": 0x80, "HLSQ_UNKNOWN_BE01": 0,
    }  # fmt: skip


def _gen7(named: Mapping[str, int], **changed: int) -> dict[str, int]:
    zero = dict.fromkeys(
        ("UCHE_UNKNOWN_0E10", "SP_UNKNOWN_AE0A", "SP_UNKNOWN_AE06", "SP_UNKNOWN_AE6A",
         "SP_UNKNOWN_AE73", "SP_UNKNOWN_AB02", "SP_UNKNOWN_AB01", "SP_UNKNOWN_AB22",
         "SP_UNKNOWN_B310"), 0,
    )  # fmt: skip
    return {**zero, "SP_UNKNOWN_AE6B": 0x80, **named, **changed}


_A730: Final = {
    "TPL1_DBG_ECO_CNTL": 0x1000000, "SP_CHICKEN_BITS": 0x1440, "UCHE_CLIENT_PF": 0x84,
    "SP_DBG_ECO_CNTL": 0x10000000, "UCHE_UNKNOWN_0E12": 0x3200000, "UCHE_CACHE_WAYS": 0x00840004,
    "TPL1_DBG_ECO_CNTL1": 0x00040724, "SP_UNKNOWN_AE08": 0x2400, "SP_UNKNOWN_AE09": 0,
    "UCHE_UNKNOWN_0E11": 0x40, "SP_UNKNOWN_AE6C": 0x8000,
}  # fmt: skip
_A740: Final = {
    "TPL1_DBG_ECO_CNTL": 0x11100000, "SP_CHICKEN_BITS": 0x10001400, "UCHE_CLIENT_PF": 0x84,
    "SP_DBG_ECO_CNTL": 0x10000000, "UCHE_UNKNOWN_0E12": 0, "UCHE_CACHE_WAYS": 0x00040004,
    "TPL1_DBG_ECO_CNTL1": 0x00040724, "SP_UNKNOWN_AE08": 0x400, "SP_UNKNOWN_AE09": 0x00430800,
    "UCHE_UNKNOWN_0E11": 0, "SP_UNKNOWN_AE6C": 0,
}  # fmt: skip
_A750: Final = {
    "TPL1_DBG_ECO_CNTL": 0x11100000, "SP_CHICKEN_BITS": 0x10000400, "UCHE_CACHE_WAYS": 0,
    "SP_DBG_ECO_CNTL": 0x10000000, "UCHE_UNKNOWN_0E12": 0x40000000, "SP_UNKNOWN_AE08": 0,
    "SP_UNKNOWN_AE09": 0x00431800, "SP_UNKNOWN_AE0A": 0x00800000, "UCHE_UNKNOWN_0E11": 0x80,
    "SP_UNKNOWN_AE6C": 0,
}  # fmt: skip
_ICACHE: Final = 127
"""Units; Qualcomm's driver has 128, with which Mesa saw hangs."""

CHIPS: Final = (
    Chip(name="a618", generation=GEN6, chip_id=0x06010800, sp_cores=1, fibers_per_sp=128 * 16,
         icache_units=64, has_lpac=False, more_ids=(0x06010500, 0x06010600), also=("a615", "a616"),
         magic=_gen6(0x430, 0, 0x00108000, 4, 1, 0x00080000)),
    Chip(name="a619", generation=GEN6, chip_id=0x06010900, sp_cores=1, fibers_per_sp=128 * 16,
         icache_units=64, has_lpac=False,
         magic=_gen6(0x430, 0, 0x00108000, 4, 1, 0x00080000)),
    Chip(name="a620", generation=GEN6, chip_id=0x06020000, sp_cores=1, fibers_per_sp=128 * 16,
         icache_units=64, has_lpac=False, magic=_gen6(0x400, 0x01000000, 0x01008000, 4, 1)),
    Chip(name="a621", generation=GEN6, chip_id=0x06020100, sp_cores=2, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, has_lpac=False,
         magic=_gen6(0x1400, 0x03000000, 0x01008000, 0, 1)),
    Chip(name="a630", generation=GEN6, chip_id=0x06030001, sp_cores=2, fibers_per_sp=128 * 16,
         icache_units=64, has_lpac=False,
         magic=_gen6(0x1430, 0, 0x00108000, 4, 0x10000001, 0x00080000)),
    Chip(name="a635", generation=GEN6, chip_id=0x06030500, sp_cores=2, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen6(0x1400, 0x6, 0x05008000, 0x84, 1), also=("a643",)),
    Chip(name="a640", generation=GEN6, chip_id=0x06040001, sp_cores=2, fibers_per_sp=128 * 4 * 16,
         icache_units=64, has_lpac=False, magic=_gen6(0x420, 0, 0x8000, 4, 1)),
    Chip(name="a650", generation=GEN6, chip_id=0x06050002, sp_cores=3, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, has_lpac=False,
         magic=_gen6(0x1400, 0x01000000, 0x01008000, 4, 1)),
    Chip(name="a660", generation=GEN6, chip_id=0x06060001, sp_cores=3, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen6(0x1400, 0x01000000, 0x05008000, 0x84, 1)),
    Chip(name="a662", generation=GEN6, chip_id=0x06060201, sp_cores=3, fibers_per_sp=128 * 4 * 16,
         icache_units=_ICACHE, magic=_gen6(0x1400, 0x6, 0x05008000, 0x84, 1),
         more_ids=(0x06060300,), also=("a644", "a663")),
    Chip(name="a680", generation=GEN6, chip_id=0x06080000, sp_cores=4, fibers_per_sp=128 * 4 * 16,
         icache_units=64, has_lpac=False, magic=_gen6(0x1430, 0, 0x00108000, 4, 1)),
    Chip(name="a690", generation=GEN6, chip_id=0x06090000, sp_cores=8, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE,
         magic={**_gen6(0x1400, 0x1200000, 0x04C00000, 0x84, 1), "SP_UNKNOWN_AAF2": 0x00C00000}),
    Chip(name="a730", generation=GEN7, chip_id=0x07030001, sp_cores=4, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen7(_A730), cche=True),
    Chip(name="a735", generation=GEN7, chip_id=0x43030B00, sp_cores=3, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen7(_A740, UCHE_CACHE_WAYS=0), cche=True),
    Chip(name="a740", generation=GEN7, chip_id=0x43050A01, sp_cores=6, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen7(_A740), cche=True,
         more_ids=(0x43050B00,), also=("a740v3",)),
    Chip(name="a750", generation=GEN7, chip_id=0x43051401, sp_cores=6, fibers_per_sp=128 * 2 * 16,
         icache_units=_ICACHE, magic=_gen7(_A750), cche=True),
    Chip(name="x1-85", generation=GEN7, chip_id=0x43050C01, sp_cores=6,
         fibers_per_sp=128 * 2 * 16, icache_units=_ICACHE, magic=_gen7(_A740), cche=True,
         constlen_quirk=True),
)  # fmt: skip
BY_NAME: Final[Mapping[str, Chip]] = {chip.name: chip for chip in CHIPS}


def chip_of(chip_id: int) -> Chip:
    """The chip with this id; generation 6 has revisions in the last byte, which do not differ.

    Raises: Unsupported with the chips that are known.
    """
    plain = chip_id & (1 << SPEED_BIN_SHIFT) - 1
    for chip in CHIPS:
        revisions = _REVISION_MASK if chip.generation == GEN6 else 0
        if plain | revisions in {one | revisions for one in (chip.chip_id, *chip.more_ids)}:
            return chip
    raise Unsupported(f"Adreno with chip id {plain:#010x}", hint=f"known are {', '.join(BY_NAME)}")


def chip_named(name: str) -> Chip:
    """The chip that has this name, or one's row. Raises: Unsupported with those that are known."""
    found = BY_NAME.get(name) or next((one for one in CHIPS if name in one.also), None)
    if found is None:
        raise Unsupported(f"chip {name!r} is not known", hint=f"known: {', '.join(BY_NAME)}")
    return found
