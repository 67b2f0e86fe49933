"""The numbers by which AMD's discovery tables call the IP blocks of a chip."""

from __future__ import annotations

from enum import IntEnum


class HwId(IntEnum):
    """IP blocks that a driver speaks to. src: Linux 6.12, amd/include/soc15_hw_ip.h, *_HWID"""

    MP1 = 1
    THM = 3
    SMUIO = 4
    FUSE = 5
    CLKA = 6
    GC = 11
    MMHUB = 34
    ATHUB = 35
    OSSSYS = 40
    HDP = 41
    SDMA0 = 42
    SDMA1 = 43
    DF = 46
    SDMA2 = 68
    SDMA3 = 69
    LSDMA = 91
    NBIF = 108
    UMC = 150
    XGMI = 200
    MP0 = 255
    DMU = 271
