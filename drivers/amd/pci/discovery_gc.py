"""The table of the discovery binary with the size of the graphics core."""

from __future__ import annotations

from typing import Final

from drivers.amd.pci.ip_table import GcInfo
from drivers.base.view import View

# src: Linux 6.12, discovery.h, struct gc_info_v1_0 and gc_info_v2_0: dwords behind the header
_HEADER_BYTES: Final = 12
_WORDS_V1, _WORDS_V2 = 19, 17
_SE, _WGP0_OR_CU, _WGP1_OR_SH, _WAVE, _WAVES, _SLOTS, _LDS = 0, 1, 2, 11, 12, 13, 14
_SA_V1: Final = 16
_CUS_PER_WGP: Final = 2
# Bounds far above any chip; they keep what is computed from them small.
_MOST_ENGINES, _MOST_ARRAYS, _MOST_CUS = 64, 8, 64
_MOST_WAVES, _MOST_SLOTS, _MOST_LDS_KIB = 64, 1 << 10, 1 << 10
_WAVE_LANES: Final = (32, 64)


def read_gc(view: View) -> GcInfo:
    """gc_info v1 (RDNA) or v2 (CDNA). Raises: MalformedInput."""
    major, minor = view.unpack("HH", 4, "version")
    if major not in (1, 2):
        raise view.fail(f"version {major}.{minor} is not known", 4)
    count = _WORDS_V1 if major == 1 else _WORDS_V2
    words: tuple[int, ...] = view.unpack(f"{count}I", _HEADER_BYTES, "its numbers")
    if major == 1:
        arrays = words[_SA_V1]
        cus = _CUS_PER_WGP * (words[_WGP0_OR_CU] + words[_WGP1_OR_SH])
    else:
        arrays, cus = words[_WGP1_OR_SH], words[_WGP0_OR_CU]
    for value, most, what in (
        (words[_SE], _MOST_ENGINES, "shader engines"),
        (arrays, _MOST_ARRAYS, "arrays of an engine"),
        (cus, _MOST_CUS, "compute units of an array"),
        (words[_WAVES], _MOST_WAVES, "waves of a SIMD"),
        (words[_SLOTS], _MOST_SLOTS, "scratch slots"),
        (words[_LDS], _MOST_LDS_KIB, "KiB of LDS"),
    ):
        if not 0 < value <= most:
            raise view.fail(f"{value} {what}; from 1 to {most} are believed", _HEADER_BYTES)
    if words[_WAVE] not in _WAVE_LANES:
        raise view.fail(f"waves of {words[_WAVE]} lanes", _HEADER_BYTES)
    return GcInfo(words[_SE], arrays, cus, words[_WAVE], words[_WAVES], words[_SLOTS], words[_LDS])
