"""What queues report to the host: end-of-pipe and trap interrupts, and faults that stop them."""

from __future__ import annotations

from boards.amd.cp.engine_types import PacketFault
from boards.amd.pci.board import Board
from boards.amd.pci.ih import Entry, Ih
from boards.amd.pci.vm_faults import CPC, MM_SDMA0, SDMA0, SQC_CODE, TCP, FaultRegisters
from boards.amd.wave.types import WaveFault

# src: include/soc15_ih_clientid.h; gfx11 and later call the graphics block's client 0x0a
_VMC, _GRBM_CP, _GFX, _UTCL2 = 0x12, 0x14, 0x0A, 0x1B
_SDMA_CLIENTS_942 = (0x08, 0x09, 0x01, 0x04)
# src: include/ivsrcid/gfx/irqsrcs_gfx_{9_0,11_0_0}.h, sdma0/irqsrcs_sdma0_4_0.h, vmc/...
_EOP, _BAD_OPCODE, _SQ, _SDMA_TRAP, _SDMA_TRAP_942, _VM_FAULT = 181, 183, 239, 49, 224, 0
_XCD_NODES, _AID_NODES = (1, 2, 5, 6, 9, 10, 13, 14), (0, 4, 8, 12)
"""src: amdgpu_irq.h enum amdgpu_interrupt_node_id_per_aid"""
_ENGINES_OF_AID = 4
_INSTRUCTION = 1
"""Encoding of an SQ interrupt of a message. src: SQ_INTERRUPT_WORD_ENCODING_INST"""
_EC_PACKET_RESERVED, _EC_PACKET = 19, 20
"""src: kfd_ioctl.h EC_QUEUE_PACKET_RESERVED, EC_QUEUE_PACKET_UNSUPPORTED"""
_ILLEGAL, _VIOLATION = 1, 2
"""Error types of an SQ interrupt. src: kfd_int_process_v{9,11}.c SQ_INTERRUPT_ERROR_TYPE_*"""


class Interrupts:
    """From what happened to entries of the interrupt ring."""

    def __init__(self, board: Board, ih: Ih, graphics: FaultRegisters, memory: FaultRegisters):
        self._board, self._ih = board, ih
        self._graphics, self._memory = graphics, memory
        self._gfx9 = board.chip.family == "gfx9"

    def end_of_pipe(
        self, vmid: int, me: int, pipe: int, queue: int, event_id: int, *, xcc: int = 0
    ) -> None:
        """src: gfx_v11_0_eop_irq(): the ring id holds the queue; gfx_v9_4_3_eop_irq(): the node"""
        ring = pipe | me << 2 | queue << 4
        node = _XCD_NODES[xcc] if self._gfx9 else 0
        self._ih.send(Entry(_GRBM_CP, _EOP, ring, vmid, node, (event_id,)))

    def sdma_trap(self, vmid: int, engine: int, queue: int, event_id: int) -> None:
        """src: sdma_v6_0_process_trap_irq(), sdma_v4_4_2_process_trap_irq()"""
        if self._gfx9:
            client = _SDMA_CLIENTS_942[engine % _ENGINES_OF_AID]
            node = _AID_NODES[engine // _ENGINES_OF_AID]
            self._ih.send(Entry(client, _SDMA_TRAP_942, 0, vmid, node, (event_id,)))
        else:
            ring = queue | engine << 4
            self._ih.send(Entry(_GFX, _SDMA_TRAP, ring, vmid, 0, (event_id,)))

    def message(self, vmid: int, data: int) -> None:
        """MSG_INTERRUPT of a wave in a trap handler, which is privileged.

        src: kfd_int_process_v11.c SQ_INTERRUPT_WORD_WAVE_CTXID0 and 1, encoding 1; v9.c
        KFD_CONTEXT_ID_GET_SQ_INT_DATA
        """
        words: tuple[int, ...] = (data & 0xFF_FFFF | 1 << 26, _INSTRUCTION << 6)
        if self._gfx9:
            low = data & 0xFFF | (data & 0xF000) << 16 | 1 << 13
            words = low | _INSTRUCTION << 26, data >> 16 & 0xFF
        self._ih.send(Entry(_GRBM_CP, _SQ, 0, vmid, 0, words))

    def fault(
        self, vmid: int, error: Exception, *, sdma: bool = False, ring_id: int = 0,
        aql_doorbell_dw: int = -1,
    ) -> None:  # fmt: skip
        """A queue has stopped. `ring_id` has its place, as `end_of_pipe` writes it; only packets
        of AQL queues have codes of their own, -1 for others."""
        access = str(getattr(error, "access", ""))
        kind = str(getattr(error, "kind", ""))
        if access in ("read", "write", "execute") and kind != "misaligned":
            self._page(vmid, int(getattr(error, "va", 0)), access, _client(error, access, sdma))
        elif isinstance(error, PacketFault) and not sdma:
            word = _packet_word(kind, aql_doorbell_dw) if aql_doorbell_dw >= 0 else 0
            self._ih.send(Entry(_GRBM_CP, _BAD_OPCODE, ring_id, vmid, 0, (word,)))
        elif isinstance(error, WaveFault):
            code = _ILLEGAL if kind == "illegal instruction" else _VIOLATION
            words = (2 << 26, code << 4) if self._gfx9 else (code << 21, 2 << 6)
            self._ih.send(Entry(_GRBM_CP, _SQ, 0, vmid, 0, words))
        else:
            self._board.find("queue stopped without an interrupt", f"VMID {vmid}: {error}")

    def _page(self, vmid: int, va: int, access: str, client: int) -> None:
        on_memory_hub = self._gfx9 and client == SDMA0
        registers = self._memory if on_memory_hub else self._graphics
        fault = registers.report(vmid, va, access, MM_SDMA0 if on_memory_hub else client)
        if fault is None:
            return
        if not fault.reported:
            self._board.find("page fault without an interrupt", f"VMID {vmid}: {access} {va:#x}")
            return
        who = _VMC if on_memory_hub else (_UTCL2 if self._gfx9 else _GFX)
        node = _XCD_NODES[0] if self._gfx9 and not on_memory_hub else 0
        self._ih.send(Entry(who, _VM_FAULT, fault.ring_id, vmid, node, fault.words))


def _packet_word(kind: str, doorbell_dw: int) -> int:
    """src: kfd_int_process_v11.c KFD_CTXID0_DOORBELL_ID, KFD_CTXID0_CP_BAD_OP_ECODE"""
    code = _EC_PACKET_RESERVED if "reserved" in kind else _EC_PACKET
    return doorbell_dw // 2 & 0x3FF | code << 10


def _client(error: Exception, access: str, sdma: bool) -> int:
    if sdma:
        return SDMA0
    if isinstance(error, WaveFault):
        return SQC_CODE if access == "execute" else TCP
    return CPC
