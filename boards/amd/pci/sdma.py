"""Copy engines: the ring registers of each queue, and the engine's own halt and reset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci import mqd
from boards.amd.pci.board import Board
from boards.amd.pci.interrupts import Interrupts
from boards.amd.pci.queue_host import Live, QueueHost, Queues, mapped
from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VmHub

_WORD_BITS = 32
_QUEUES = 8
_DOORBELL_BYTES = 8
# src: psp_gfx_if.h GFX_FW_TYPE_*; sdma_v7_0.c and sdma_v4_4_2.c have one image
_FIRMWARE = {
    "gfx9": ("SDMA0",), "gfx11": ("SDMA_UCODE_TH0", "SDMA_UCODE_TH1", "RLC_AUTOLOAD"),
    "gfx12": ("SDMA_UCODE_TH0", "RLC_AUTOLOAD"),
}  # fmt: skip
_WHILE_ON = ("RB_BASE", "RB_BASE_HI", "RB_RPTR_ADDR_LO", "RB_RPTR_ADDR_HI", "DOORBELL_OFFSET",
             "RB_RPTR", "RB_RPTR_HI")  # fmt: skip
"""Registers that may not be written while the ring is enabled."""


@dataclass(eq=False, slots=True)
class _Ring:
    """One queue of one engine; `name` makes the name of one of its registers."""

    block: Block
    engine: int
    queue: int
    prefix: str
    live: Live | None = None
    halted_hung: bool = False
    """Switched off while it hung: it ignores everything until the engine is reset."""
    scheduled: bool = False
    """A scheduler has loaded it: its doorbell comes by the graphics block's route."""

    def name(self, register: str) -> str:
        return f"{self.prefix}{register}"

    def get(self, register: str) -> int:
        return self.block.get(self.name(register))

    def field(self, register: str, field: str) -> int:
        return self.block.field(self.name(register), field)

    def pair(self, register: str, low: str, high: str) -> int:
        return self.get(register + low) | self.get(register + high) << _WORD_BITS

    @property
    def enabled(self) -> bool:
        return bool(self.field("RB_CNTL", "RB_ENABLE"))

    @property
    def vmid(self) -> int:
        return self.field("RB_CNTL", "RB_VMID")

    @property
    def polls(self) -> bool:
        """src: sdma_v6_0_gfx_resume(), sdma_v4_4_2_gfx_resume(): which bits let it poll"""
        fields = self.block.table[self.name("RB_CNTL")].fields
        for field in ("F32_WPTR_POLL_ENABLE", "MCU_WPTR_POLL_ENABLE", "WPTR_POLL_ENABLE"):
            if field in fields and self.field("RB_CNTL", field):
                return True
        known = self.block.has(self.name("RB_WPTR_POLL_CNTL"))
        return known and bool(self.field("RB_WPTR_POLL_CNTL", "F32_POLL_ENABLE"))

    @property
    def title(self) -> str:
        return f"queue {self.queue} of SDMA{self.engine}"

    def spec(self, queue_id: int) -> QueueSpec:
        """src: sdma_v6_0_gfx_resume(), sdma_v4_4_2_gfx_resume(): pointers count bytes"""
        writes_back = self.field("RB_CNTL", "RPTR_WRITEBACK_ENABLE")
        return QueueSpec(
            queue_id=queue_id,
            kind="sdma",
            ring_va=self.pair("RB_BASE", "", "_HI") << 8,
            ring_bytes=4 << self.field("RB_CNTL", "RB_SIZE"),
            rptr_va=self.pair("RB_RPTR_ADDR", "_LO", "_HI") if writes_back else 0,
            wptr_va=self.pair("RB_WPTR_POLL_ADDR", "_LO", "_HI"),
            engine=self.engine,
            start=self.pair("RB_WPTR", "", "_HI"),
        )


class Sdma:
    """All copy engines of a GPU."""

    def __init__(
        self,
        board: Board,
        blocks: Sequence[Block],
        hub: VmHub,
        queues: Queues,
        interrupts: Interrupts,
    ) -> None:
        self._board, self._hub, self._queues, self._interrupts = board, hub, queues, interrupts
        self._gfx9 = board.chip.family == "gfx9"
        self._rings: list[_Ring] = []
        self.kernel: object = None
        """What privileged rings reach beyond a process's."""
        self.stuck: set[tuple[int, int]] = set()
        """The fault panel: (engine, queue) that only a reset of the whole GPU ends."""
        if self._gfx9:
            for engine, block in enumerate(blocks):
                self._engine(block, engine, "SDMA_")
                self._add(_Ring(block, engine, 0, "SDMA_GFX_"))
                for queue in range(_QUEUES):  # of processes
                    self._add(_Ring(block, engine, 1 + queue, f"SDMA_RLC{queue}_"))
        else:
            for engine in range(board.chip.sdma_engines):
                self._engine(blocks[0], engine, f"SDMA{engine}_")
                for queue in range(_QUEUES):
                    self._add(_Ring(blocks[0], engine, queue, f"SDMA{engine}_QUEUE{queue}_"))
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self.stuck.clear()
        for ring in self._rings:
            ring.live, ring.halted_hung, ring.scheduled = None, False, False

    # Engines

    def _control(self, block: Block, prefix: str) -> str:
        name = f"{prefix}F32_CNTL"
        return name if block.has(name) else f"{prefix}MCU_CNTL"

    def _engine(self, block: Block, engine: int, prefix: str) -> None:
        name = self._control(block, prefix)
        layout, at_reset = block.table[name], 0
        if not self._gfx9:  # src: tinygrad never lets go engines of gfx942, and they run
            for field in ("HALT", "TH1_RESET", "RESET"):
                at_reset = layout.put(at_reset, field, 1) if field in layout.fields else at_reset
        block.preset(name, at_reset)
        block.on_write(name, partial(self._controlled, engine, name, block))

    def _why_not(self, ring: _Ring) -> str:
        """What keeps an engine from running."""
        board, prefix = self._board, "SDMA_" if self._gfx9 else f"SDMA{ring.engine}_"
        if board.options.firmware:
            for kind in _FIRMWARE[board.chip.family]:
                if kind not in board.loaded:
                    return f"its firmware is not there ({kind})"
        name = self._control(ring.block, prefix)
        for field in ("HALT", "TH1_RESET", "RESET"):
            if field in ring.block.table[name].fields and ring.block.field(name, field):
                return f"{name}.{field} is set"
        if self._gfx9 and not ring.block.field("SDMA_CNTL", "UTC_L1_ENABLE"):
            return "SDMA_CNTL.UTC_L1_ENABLE is not set"
        return ""

    def _controlled(self, engine: int, name: str, block: Block, value: int) -> None:
        layout = block.table[name]
        if any(layout.get(value, field) for field in ("RESET", "TH0_RESET")
               if field in layout.fields):  # fmt: skip
            self.reset_engine(engine)

    def reset_engine(self, engine: int) -> None:
        """Its queues are gone, hung ones too."""
        for ring in self._rings:
            if ring.engine == engine and (engine, ring.queue) not in self.stuck:
                self._drop(ring)
                ring.halted_hung = False
                ring.block.put_field(ring.name("RB_CNTL"), "RB_ENABLE", 0)

    # Rings

    def _add(self, ring: _Ring) -> None:
        if not ring.block.has(ring.name("RB_CNTL")):
            return
        self._rings.append(ring)
        block = ring.block
        block.on_write(ring.name("RB_CNTL"), lambda value: self._switched(ring))
        block.on_read(ring.name("RB_RPTR"), lambda: self._position(ring))
        block.on_read(ring.name("RB_RPTR_HI"), lambda: self._position(ring) >> _WORD_BITS)
        if block.has(ring.name("CONTEXT_STATUS")):
            block.on_read(ring.name("CONTEXT_STATUS"), lambda: self._status(ring))
        for register in _WHILE_ON:
            name = ring.name(register)
            block.on_write(name, partial(self._touched, ring, name))

    def _touched(self, ring: _Ring, name: str, value: int) -> None:
        if ring.enabled:
            self._board.find("SDMA", f"{name} is written while the ring is enabled")

    def _position(self, ring: _Ring) -> int:
        if ring.live is None:
            return ring.block.get(ring.name("RB_RPTR"))
        return self._queues.read_pointer(ring.live)

    def _status(self, ring: _Ring) -> int:
        """src: kgd_hqd_sdma_destroy(): a ring that was switched off is gone once it is idle"""
        layout = ring.block.table[ring.name("CONTEXT_STATUS")]
        busy = ring.halted_hung or (ring.live is not None and not self._queues.idle(ring.live))
        return layout.put(0, "IDLE", int(not busy))

    def _switched(self, ring: _Ring) -> None:
        if ring.enabled and ring.live is None:
            self._start(ring)
        elif not ring.enabled and ring.live is None:
            self._drop(ring)
        elif not ring.enabled and ring.live is not None:
            if self._queues.stuck(ring.live) or (ring.engine, ring.queue) in self.stuck:
                ring.halted_hung = True
            elif not self._queues.idle(ring.live):
                self._board.find("SDMA", f"{ring.title} is switched off while it has work")
            ring.block.put(ring.name("RB_RPTR"), self._queues.read_pointer(ring.live))
            self._drop(ring)

    def _drop(self, ring: _Ring) -> None:
        ring.scheduled = False
        if ring.live is not None:
            self._queues.stop(ring.live)
            ring.live = None

    def _start(self, ring: _Ring) -> None:
        find = self._board.find
        if ring.halted_hung:
            find("SDMA", f"{ring.title} is enabled, and hangs: the engine was not reset")
            return
        # src: sdma_v4_4_2_inst_start() enables rings before SDMA_CNTL.UTC_L1_ENABLE
        spec = ring.spec(self._queues.next_id())
        why = "" if self._gfx9 else self._why_not(ring)
        problems = [f"its engine does not run: {why}"] if why else []
        if ring.vmid and self._hub.context(ring.vmid) is None:
            problems.append(f"VMID {ring.vmid} is not enabled")
        for what, va, nbytes, write in (
            ("ring", spec.ring_va, spec.ring_bytes, False), ("read pointer", spec.rptr_va, 8, True),
            ("write pointer", spec.wptr_va, 8, False),
        ):  # fmt: skip
            reason = mapped(self._hub, ring.vmid, va, nbytes, write=write) if va else ""
            if reason:
                problems.append(f"the {what}: {reason}")
        if self._position(ring) != spec.start:
            problems.append("its read and write pointer differ")
        for problem in problems:
            find("SDMA", f"{ring.title} is enabled: {problem}")
        if not ring.vmid and (self._gfx9 or ring.field("RB_CNTL", "RB_PRIV")):
            # src: sdma_v4_4_2_rb_cntl() does not set RB_PRIV; KFD has other rings (RLC)
            spec.kernel = self.kernel
        host = QueueHost(
            self._board, self._board.chip, lambda: (0, 0), partial(self._trap, ring),
            partial(self._interrupts.fault, ring.vmid, sdma=True),
        )  # fmt: skip
        ring.live = Live(
            ring.title, ring.vmid, self._hub, spec, host, lambda: self._why_not(ring),
            lambda: ring.polls,
        )  # fmt: skip
        self._queues.start(ring.live)

    def _trap(self, ring: _Ring, event_id: int) -> None:
        name = "SDMA_CNTL" if self._gfx9 else f"SDMA{ring.engine}_CNTL"
        if not ring.block.field(name, "TRAP_ENABLE"):
            self._board.find("interrupt not enabled", f"{name}.TRAP_ENABLE, and a queue raises it")
            return
        self._interrupts.sdma_trap(ring.vmid, ring.engine, ring.queue, event_id)

    def doorbell(self, index: int, nbytes: int, value: int, *, scheduled: bool = False) -> bool:
        """A store that was routed here; whether a queue listens.

        amdgpu routes its own rings' doorbells to the copy engines, and processes' nowhere else
        than to the graphics block. src: nbio_v4_3_sdma_doorbell_range(), kfd_doorbell.c
        """
        for ring in self._rings:
            listens = ring.field("DOORBELL", "ENABLE") and ring.scheduled >= scheduled
            if not listens or ring.field("DOORBELL_OFFSET", "OFFSET") != index:
                continue
            if ring.live is None and self._is_set(ring, value):
                return True
            if ring.live is None:
                self._board.find("doorbell", f"{ring.title} is not enabled")
                return True
            if self._gfx9 and (why := self._why_not(ring)):
                self._board.find("SDMA", f"{ring.title} is given work, and cannot run: {why}")
            if nbytes != _DOORBELL_BYTES:
                self._board.find("doorbell", f"{ring.title}: {nbytes} bytes are stored, not 8")
            self._queues.ring(ring.live, value)
            return True
        return False

    def _is_set(self, ring: _Ring, value: int) -> bool:
        """A disabled ring's write pointer is set by its doorbell while MINOR_PTR_UPDATE is on.

        src: sdma_v4_4_2_gfx_resume()
        """
        name = ring.name("MINOR_PTR_UPDATE")
        if not (self._gfx9 and ring.block.has(name) and ring.block.get(name)):
            return False
        ring.block.put(ring.name("RB_WPTR"), value & (1 << _WORD_BITS) - 1)
        ring.block.put(ring.name("RB_WPTR_HI"), value >> _WORD_BITS)
        return True

    # What a scheduler does

    def free(self, first: int) -> tuple[int, int] | None:
        """A queue that is not enabled, from a number on: (engine, queue)."""
        rings = sorted(self._rings, key=lambda ring: (ring.queue, ring.engine))
        for ring in rings:
            if ring.queue >= first and not ring.enabled:
                return ring.engine, ring.queue
        return None

    def is_free(self, place: tuple[int, int]) -> bool:
        """Whether there is such a queue, and it is not enabled."""
        return any((r.engine, r.queue) == place and not r.enabled for r in self._rings)

    def _ring(self, engine: int, queue: int) -> _Ring:
        return next(r for r in self._rings if (r.engine, r.queue) == (engine, queue))

    def load(self, place: tuple[int, int], words: tuple[int, ...], vmid: int) -> None:
        """Enable a queue as its MQD says, for a VMID, with its doorbell."""
        ring = self._ring(*place)
        block = ring.block
        for register, at in mqd.SDMA_REGISTERS[self._board.chip.gc[0]].items():
            block.put(ring.name(register), words[at])
        block.put_field(ring.name("DOORBELL"), "ENABLE", 1)
        control = block.table[ring.name("RB_CNTL")]
        value = control.put(words[mqd.SDMA_CONTROL], "RB_VMID", vmid)
        block.put(ring.name("RB_CNTL"), control.put(value, "RB_ENABLE", 1))
        ring.scheduled = True
        self._switched(ring)

    def unload(self, place: tuple[int, int]) -> int:
        """Disable a queue wherever it is; how far it had come, in bytes."""
        ring = self._ring(*place)
        read = self._position(ring)
        self._drop(ring)
        ring.block.put_field(ring.name("RB_CNTL"), "RB_ENABLE", 0)
        ring.block.put_field(ring.name("DOORBELL"), "ENABLE", 0)
        return read

    def catch_up(self, engine: int, queue: int, written: int) -> None:
        """A queue that is enabled with work in it goes on, as if its doorbell had rung."""
        ring = self._ring(engine, queue)
        if ring.live is not None and written > self._position(ring):
            self._queues.ring(ring.live, written)

    # For the fault panel

    def queues(self) -> dict[tuple[int, int], Live]:
        """Enabled queues by (engine, queue)."""
        return {(r.engine, r.queue): r.live for r in self._rings if r.live is not None}

    def hang(self, key: tuple[int, int], *, for_good: bool = False) -> None:
        """A queue makes no progress; with `for_good` a reset of its engine does not help."""
        self._queues.hang(self.queues()[key])
        if for_good:
            self.stuck.add(key)

    @property
    def busy(self) -> bool:
        """Whether any queue has work."""
        return any(not self._queues.idle(live) for live in self.queues().values())
