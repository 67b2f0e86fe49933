"""KGSL's and msm's ioctls in a recording: what lies behind their pointers.

Neither interface reports an identifier of the machine. A property of KGSL's that is set, and a
list of faults, have a pointer of their own, behind the ioctl's. msm's pointers, and those to lists
of packets, are in the structs themselves.
"""

from __future__ import annotations

from typing import Final

from drivers.qcom.kgsl.abi import (
    GET_FAULT_REPORT,
    GET_PROPERTY,
    SET_PROPERTY,
    FaultReport,
    Property,
)
from drivers.world.identifiers import NoIdentifiers

_PROPERTIES: Final = frozenset({GET_PROPERTY.request, SET_PROPERTY.request})


class QcomIdentifiers(NoIdentifiers):
    """As `drivers.world.identifiers` has it."""

    def params(self, request: int, argument: bytearray) -> int:
        """Where a property is, or a list of faults."""
        if request == GET_FAULT_REPORT.request and len(argument) == FaultReport.SIZE:
            faults: int = FaultReport.of(bytes(argument)).faultlist
            return faults
        if request not in _PROPERTIES or len(argument) != Property.SIZE:
            return 0
        where: int = Property.of(bytes(argument)).value
        return where
