"""Instructions that reach memory or other lanes: which they are, and what a launch gives them.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs; LDSM, LDGSTS and .POPC.INC measured: text of
nvdisasm 13.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from boards.nv.warp import access, atomics, generic, matrix, special, transport
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.memory import GlobalMemory


@dataclass(frozen=True, slots=True)
class Reach:
    """What a launch gives to its instructions."""

    memory: GlobalMemory
    banks: dict[int, bytes]
    report: Callable[[str], None]
    conflicts: Counter[int] | None = None
    """By offset of the instruction: turns of shared memory that bank conflicts cost."""


Make = Callable[[Builder, Reach], Action]


def _own(*, local: bool, stores: bool) -> Make:
    make = access.store_own if stores else access.load_own
    return lambda build, reach: make(build, reach.report, local=local, conflicts=reach.conflicts)


def _atoms(build: Builder, reach: Reach) -> Action:
    if build.form == _COUNTS:
        return atomics.atoms_count(build, reach.report)
    return atomics.atoms(build, reach.report)


def _atomic(*, generic_address: bool, compares: bool) -> Make:
    make = atomics.atomg_cas if compares else atomics.atomg
    return lambda build, reach: make(build, reach.memory, reach.report, generic=generic_address)


_COUNTS = 7
"""The form of ATOMS.POPC.INC."""
MEMORY: Final[dict[int, tuple[str, Make]]] = {
    0x181: ("LDG", lambda build, reach: access.ldg(build, reach.memory)),
    0x186: ("STG", lambda build, reach: access.stg(build, reach.memory)),
    0x180: ("LD", lambda build, reach: generic.ld(build, reach.memory, reach.report)),
    0x185: ("ST", lambda build, reach: generic.st(build, reach.memory, reach.report)),
    0x183: ("LDL", _own(local=True, stores=False)), 0x187: ("STL", _own(local=True, stores=True)),
    0x184: ("LDS", _own(local=False, stores=False)), 0x188: ("STS", _own(local=False, stores=True)),
    0x182: ("LDC", lambda build, reach: access.ldc(build, reach.banks)),
    0x189: ("SHFL", lambda build, reach: special.shfl(build, reach.report)),
    0x03C: ("HMMA", lambda build, reach: matrix.hmma(build, reach.report)),
    0x03F: ("DMMA", lambda build, reach: matrix.dmma(build, reach.report)),
    0x037: ("IMMA", lambda build, reach: matrix.imma(build, reach.report)),
    0x03B: ("LDSM", lambda build, reach: transport.ldsm(build, reach.report)),
    0x1AE: ("LDGSTS", lambda build, reach: transport.ldgsts(build, reach.memory, reach.report)),
    0x1A8: ("ATOMG", _atomic(generic_address=False, compares=False)),
    0x1A9: ("ATOMG", _atomic(generic_address=False, compares=True)),
    0x18A: ("ATOM", _atomic(generic_address=True, compares=False)),
    0x18B: ("ATOM", _atomic(generic_address=True, compares=True)),
    0x18E: ("RED", lambda build, reach: atomics.red(build, reach.memory)),
    0x18C: ("ATOMS", _atoms),
    0x1AA: ("QSPC", lambda build, reach: atomics.qspc(build)),
    0x18D: ("ATOMS", lambda build, reach: atomics.atoms_cas(build, reach.report)),
}  # fmt: skip
"""By nine bits of opcode."""
