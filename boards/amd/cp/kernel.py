"""Packets of the kernel's own queues: the interface queue (KIQ), and the graphics ring.

Compute needs little of a graphics ring: amdgpu tests it, and submits work of its own. Packets that
set up drawing are checked and have no effect.
src: nvd.h (opcodes, fields); gfx_v11_0.c, which of them the kernel sends and how
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from boards.amd.cp.context import Context, bits, join
from boards.amd.cp.layouts import (
    INDIRECT_BUFFER,
    WAIT_REG_MEM,
    WRITE_DATA,
    PacketRule,
    fields,
)
from boards.amd.cp.state import State

GRAPHICS, KIQ, COMPUTE, HIQ = "graphics", "KIQ", "compute", "HIQ"
CLEAR_STATE, SET_BASE, CONTEXT_CONTROL, PFP_SYNC_ME, PREAMBLE_CNTL = 0x12, 0x11, 0x28, 0x42, 0x4A
SET_CONTEXT_REG, SWITCH_BUFFER, FRAME_CONTROL, SET_Q_MODE = 0x69, 0x8B, 0x90, 0xF0
INVALIDATE_TLBS, SET_RESOURCES, MAP_QUEUES, UNMAP_QUEUES, QUERY_STATUS = (
    0x98, 0xA0, 0xA2, 0xA3, 0xA4,
)  # fmt: skip
MAP_PROCESS, RUN_LIST = 0xA1, 0xA5
ENGINES = {0: COMPUTE, 4: GRAPHICS, 5: "MES"}
ENGINES_9 = {0: COMPUTE, 1: HIQ}
"""ENGINE_SEL of MAP_QUEUES. src: gfx_v11_0.c gfx11_kiq_map_queues(); gfx9's:
amdgpu_amdkfd_gfx_v9.c kgd_gfx_v9_hiq_mqd_load()"""
_UNMAP_ACTIONS = range(4)
"""src: amdgpu_gfx.h enum amdgpu_unmap_queues_action"""
_SHADER_TYPE_INDEX = fields((15, 0), (31, 28))

# INDIRECT_BUFFER: bit 30, 22 in a graphics ring, is "inherit vmid from mqd", which the kernel's
# rings set. src: gfx_v11_0.c gfx_v11_0_ring_emit_ib_compute(), gfx_v11_0_ring_emit_ib_gfx()
_INHERIT_VMID = {
    INDIRECT_BUFFER: PacketRule(
        "INDIRECT_BUFFER", 3, 3,
        (3, fields((15, 0)), fields((19, 0), 20, 21, 23, (27, 24), (30, 28))),
    ),
}  # fmt: skip
INVALIDATE = {
    INVALIDATE_TLBS: PacketRule("INVALIDATE_TLBS", 1, 1, (fields((2, 0), 4, (20, 5), (31, 29)),)),
}
LAYOUTS: dict[str, dict[int, PacketRule]] = {
    COMPUTE: INVALIDATE | _INHERIT_VMID,
    GRAPHICS: INVALIDATE | {
        INDIRECT_BUFFER: PacketRule(
            "INDIRECT_BUFFER", 3, 3, (3, fields((15, 0)), fields((19, 0), 20, 21, 22, (30, 24)))
        ),
        # which of its two engines waits or writes. src: nvd.h WAIT_REG_MEM_ENGINE,
        # WRITE_DATA_ENGINE_SEL
        WAIT_REG_MEM: PacketRule(
            "WAIT_REG_MEM", 6, 6,
            (fields((2, 0), (5, 4), (7, 6), 8, (26, 25)), 0, 0, 0, 0, fields((15, 0), 31)),
        ),
        WRITE_DATA: PacketRule(
            "WRITE_DATA", 4, None, (fields((11, 8), 16, 20, (26, 25), (31, 30)),)
        ),
        CLEAR_STATE: PacketRule("CLEAR_STATE", 1, 1),
        SET_BASE: PacketRule("SET_BASE", 3, 3),
        CONTEXT_CONTROL: PacketRule("CONTEXT_CONTROL", 2, 2),
        PFP_SYNC_ME: PacketRule("PFP_SYNC_ME", 1, 1),
        PREAMBLE_CNTL: PacketRule("PREAMBLE_CNTL", 1, 1, (fields((31, 28)),)),
        SET_CONTEXT_REG: PacketRule("SET_CONTEXT_REG", 2, None, (_SHADER_TYPE_INDEX,)),
        SWITCH_BUFFER: PacketRule("SWITCH_BUFFER", 1, 1),
        FRAME_CONTROL: PacketRule("FRAME_CONTROL", 1, 1),
        SET_Q_MODE: PacketRule("SET_Q_PREEMPTION_MODE", 8, 8),
    },
    KIQ: INVALIDATE | _INHERIT_VMID | {
        SET_RESOURCES: PacketRule("SET_RESOURCES", 7, 7),
        MAP_QUEUES: PacketRule("MAP_QUEUES", 6, 6, (0, fields(1, (27, 2)))),
        UNMAP_QUEUES: PacketRule("UNMAP_QUEUES", 5, 5),
        QUERY_STATUS: PacketRule("QUERY_STATUS", 6, 6),
    },
    HIQ: {
        SET_RESOURCES: PacketRule("SET_RESOURCES", 7, 7),
        QUERY_STATUS: PacketRule("QUERY_STATUS", 6, 6),
        UNMAP_QUEUES: PacketRule("UNMAP_QUEUES", 5, 5),
        RUN_LIST: PacketRule("RUN_LIST", 3, 3, (3, 0, fields((27, 0)))),
    },
}  # fmt: skip
"""What a kernel's queue takes beyond a process's, by its role."""


class Kernel(Protocol):
    """What packets of a kernel's queue reach beyond memory and their own registers."""

    role: str
    """GRAPHICS, KIQ, HIQ or COMPUTE."""

    def read_register(self, address_dw: int) -> int: ...
    def write_register(self, address_dw: int, value: int) -> None: ...
    def invalidate_tlbs(self, pasid: int, *, all_hubs: bool) -> None: ...
    def invalidate_vmids(self, vmids: int) -> None:
        """Translations of VMIDs in the graphics hub, one bit each."""

    def map_queue(self, engine: str, pipe: int, queue: int, mqd_va: int) -> str:
        """Why the queue cannot be mapped; empty when it is."""

    def unmap_queue(self, engine: str, doorbell_dw: int) -> str:
        """Why there is no such queue; empty when it is gone."""

    def schedule(self, opcode: int, words: tuple[int, ...]) -> str:
        """A packet for the scheduler of processes, which the HIQ has; why it is refused."""


def _kernel(state: State) -> Kernel:
    kernel: Kernel | None = state.context.spec.kernel
    if kernel is None:
        raise state.context.fault("privileged", "only queues of the kernel may send it")
    return kernel


def _invalidate_tlbs(state: State, words: tuple[int, ...]) -> bool:
    _kernel(state).invalidate_tlbs(bits(words[0], 20, 5), all_hubs=bool(words[0] >> 4 & 1))
    return True


def _engine(context: Context, control: int) -> str | None:
    known = ENGINES_9 if context.host.chip.family == "gfx9" else ENGINES
    return known.get(bits(control, 28, 26))


def _map_queues(state: State, words: tuple[int, ...]) -> bool:
    context, control = state.context, words[0]
    engine = _engine(context, control)
    if engine is None or bits(control, 31, 29) != 1 or bits(control, 5, 4):
        raise context.fault("unsupported", f"MAP_QUEUES of {control:#x}: one queue, by its number")
    why = _kernel(state).map_queue(
        engine, bits(control, 17, 16), bits(control, 15, 13), join(words[2], words[3])
    )
    if why:
        raise context.fault("unmappable queue", why)
    return True


def _scheduled(opcode: int, state: State, words: tuple[int, ...]) -> bool:
    why = _kernel(state).schedule(opcode, words)
    if why:
        raise state.context.fault("scheduler", why)
    return True


def _set_resources(state: State, words: tuple[int, ...]) -> bool:
    """The KIQ's concern nobody: what it maps has a place of its own."""
    return _kernel(state).role != HIQ or _scheduled(SET_RESOURCES, state, words)


def _unmap_queues(state: State, words: tuple[int, ...]) -> bool:
    if _kernel(state).role == HIQ:
        return _scheduled(UNMAP_QUEUES, state, words)
    context, control = state.context, words[0]
    engine, action = _engine(context, control), bits(control, 1, 0)
    if engine is None or action not in _UNMAP_ACTIONS or bits(control, 31, 29) != 1:
        raise context.fault("unsupported", f"UNMAP_QUEUES of {control:#x}")
    why = _kernel(state).unmap_queue(engine, bits(words[1], 27, 2))
    if why:
        context.find("UNMAP_QUEUES", why)
    return True


def _query_status(state: State, words: tuple[int, ...]) -> bool:
    """Write the fence: everything before is done, as packets are executed one by one."""
    context = state.context
    context.write_int(context.aligned(join(words[2], words[3]), 8), join(words[4], words[5]), 8)
    return True


def _nothing(state: State, words: tuple[int, ...]) -> bool:
    return True


HANDLERS: dict[int, Callable[[State, tuple[int, ...]], bool]] = {
    INVALIDATE_TLBS: _invalidate_tlbs, MAP_QUEUES: _map_queues, UNMAP_QUEUES: _unmap_queues,
    QUERY_STATUS: _query_status, SET_RESOURCES: _set_resources,
    RUN_LIST: partial(_scheduled, RUN_LIST),
    **dict.fromkeys(
        (CLEAR_STATE, SET_BASE, CONTEXT_CONTROL, PFP_SYNC_ME, PREAMBLE_CNTL,
         SET_CONTEXT_REG, SWITCH_BUFFER, FRAME_CONTROL, SET_Q_MODE), _nothing),
}  # fmt: skip
