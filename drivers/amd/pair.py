"""The queues of an AMD device: PM4 or AQL packets on one, SDMA packets on the other."""

from __future__ import annotations

from typing import TypeAlias

from drivers.amd.compute_ring import AmdComputeRing
from drivers.amd.sdma_ring import SdmaRing
from drivers.gpu.pair import RingPair
from drivers.gpu.recovery import Recovery
from drivers.gpu.transfers import Transfers
from drivers.gpu.waits import Waits

AmdPair: TypeAlias = RingPair[AmdComputeRing, SdmaRing]
AmdRecovery: TypeAlias = Recovery[AmdComputeRing, SdmaRing]
AmdWaits: TypeAlias = Waits[AmdComputeRing, SdmaRing]
AmdTransfers: TypeAlias = Transfers[AmdComputeRing, SdmaRing]
