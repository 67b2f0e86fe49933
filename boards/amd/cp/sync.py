"""PM4 packets that order: RELEASE_MEM, ACQUIRE_MEM, EVENT_WRITE, COND_EXEC, PRED_EXEC, buffers."""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.context import Context, Hung, WaveMemory, bits, join
from boards.amd.cp.engine_types import Scope
from boards.amd.cp.state import State, Stream

# src: soc21_enum.h, vega10_enum.h VGT_EVENT_TYPE: end-of-pipe events that carry a time stamp.
_EOP_EVENTS = {0x04: "CACHE_FLUSH_TS", 0x14: "CACHE_FLUSH_AND_INV_TS", 0x28: "BOTTOM_OF_PIPE_TS"}
_CS_DONE, _CS_PARTIAL_FLUSH = 0x2F, 0x07
# src: pm4_pkt_struct_ai.h: event_index, int_sel, data_sel; nvd.h EVENT_INDEX.
_END_OF_PIPE, _SHADER_DONE, _PARTIAL_FLUSH = 5, 6, 4
_NO_INTERRUPT, _INTERRUPT_ONLY, _INTERRUPT_AFTER_WRITE, _CONFIRM_ONLY = 0, 1, 2, 3
_NO_DATA, _DATA_32, _DATA_64, _CLOCK = 0, 1, 2, 3
# src: nvd.h PACKET3_ACQUIRE_MEM_GCR_CNTL_*; RELEASE_MEM has the same bits from bit 12 on,
# without the first four.
GLK_INV, GLV_INV, GL1_INV, GL2_INV, GL2_WB = 7, 8, 9, 14, 15
_RELEASE_GL2_WB_NV = 1 << 21
# src: soc15d.h EOP_TC_WB_ACTION_EN, EOP_TC_NC_ACTION_EN. Both: lines of MTYPE NC alone (Mesa, gfx9
# cache flushes); a card's own memory is RW on gfx942 (gmc_v9_0_get_coherence_flags).
_RELEASE_TC_WB, _RELEASE_TC_NC = 1 << 15, 1 << 19
# src: soc15d.h PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_*
_TC_WB, _TCL1, _TC, _KCACHE, _ICACHE = 18, 22, 23, 27, 29
_ALL_BYTES_MIN = (1 << 40) - 1
_CHAINED_MAX = 4096


@dataclass(frozen=True, slots=True)
class Caches:
    """What is invalidated, in front of whom, and whether the L2 is written back."""

    data: bool = False
    code: bool = False
    scope: Scope = Scope.L2
    back: bool = False


def _reach(*, l2: bool) -> Scope:
    """How far a packet's invalidation reaches: with the L2 as far as there are caches."""
    return Scope.SYSTEM if l2 else Scope.L2


def caches_nv(context: Context, control: int, *, whole: bool = True) -> Caches:
    """What GCR_CNTL asks for; `whole`: COHER_SIZE covers all addresses.

    GLI, GL1 and GL2 have a field that makes them follow the range. GLK and GLV have none, and no
    source says what they do with one: a range is not relied on to invalidate them.
    """
    # src: nvd.h: GL1 exists on gfx10 and gfx11; the RDNA4 ISA has no such level.
    needed = (GLK_INV, GLV_INV) if context.host.chip.family == "gfx12" else (
        GLK_INV, GLV_INV, GL1_INV,
    )  # fmt: skip
    data = whole and all(control >> bit & 1 for bit in needed)
    code = bits(control, 1, 0) == 1
    for high, low, name in ((3, 2, "GL1_RANGE"), (12, 11, "GL2_RANGE")):
        if bits(control, high, low):
            raise context.fault("unsupported", f"{name}: only whole caches on this board")
    if bits(control, 1, 0) > 1:
        raise context.fault("unsupported", "GLI_INV by range: only the whole cache")
    scope = _reach(l2=bool(control >> GL2_INV & 1))
    return Caches(data, code, scope, bool(control >> GL2_WB & 1))


def apply_caches(waves: WaveMemory, caches: Caches) -> None:
    """Write back first, then invalidate: what the waves wrote is not lost.

    Several XCCs run a packet each at its own time: none waits for what the others write back.
    """
    if caches.back and not waves.several_l2:
        waves.write_back()
    if caches.data:
        waves.acquire(caches.scope)
    if caches.code:
        waves.acquire_code(caches.scope)


def acquire_mem(state: State, words: tuple[int, ...]) -> bool:
    """Make the waves' caches forget, and write the shared one back when asked."""
    context = state.context
    context.stamps_arrive()
    whole = join(words[1], words[2] & 0xFF) >= _ALL_BYTES_MIN or words[1] == 0xFFFFFFFF
    if context.host.chip.family == "gfx9":
        if not whole:  # CP_COHER_CNTL has no range bits: more than the range may be dropped
            context.host.trace("range", queue=context.spec.queue_id, taken_as="whole caches")
        control = words[0]
        caches = Caches(
            data=bool(control >> _TCL1 & 1 and control >> _KCACHE & 1),
            code=bool(control >> _ICACHE & 1),
            scope=_reach(l2=bool(control >> _TC & 1)),
            back=bool(control >> _TC_WB & 1),
        )
    else:
        caches = caches_nv(context, words[6], whole=whole)
    apply_caches(context.waves, caches)
    return True


def release_mem(state: State, words: tuple[int, ...]) -> bool:
    """When all dispatches before are done: write back, write a value, interrupt."""
    context, control, select = state.context, words[0], words[1]
    event, index = bits(control, 5, 0), bits(control, 11, 8)
    if not (event in _EOP_EVENTS and index == _END_OF_PIPE) and not (
        event == _CS_DONE and index == _SHADER_DONE
    ):
        raise context.fault("reserved value", f"event {event:#x} with index {index}")
    graphics = context.spec.kernel is not None and context.spec.kernel.role != "compute"
    if not context.spec.eop_bytes and context.spec.kind == "pm4" and not graphics:
        raise context.fault("no EOP buffer", "the queue was created without one")
    if context.host.chip.family == "gfx9":
        back = control & (_RELEASE_TC_WB | _RELEASE_TC_NC) == _RELEASE_TC_WB
    else:
        back = bool(control & _RELEASE_GL2_WB_NV)
    if back and (state.xccs == state.everyone or not context.waves.several_l2):
        context.waves.release()  # some XCCs write their own L2s back, and not the others'
    data, interrupt = bits(select, 31, 29), bits(select, 26, 24)
    if data > _CLOCK or interrupt > _CONFIRM_ONLY or bits(select, 17, 16) > 1:
        raise context.fault("unsupported", f"data_sel {data}, int_sel {interrupt}")
    if interrupt == _INTERRUPT_ONLY and data != _NO_DATA:
        raise context.fault("reserved value", "an interrupt alone has DATA_SEL 0")
    _release_value(context, words, data)
    if interrupt in (_INTERRUPT_ONLY, _INTERRUPT_AFTER_WRITE):
        context.interrupt(words[6])
    return True


def _release_value(context: Context, words: tuple[int, ...], data: int) -> None:
    va = join(words[2], words[3])
    if data:
        context.waves.ends.add(va)
    if data == _DATA_32:
        context.signal(context.aligned(va, 4), words[4], 4)
    elif data == _DATA_64:
        context.signal(context.aligned(va, 8), join(words[4], words[5]), 8)
    elif data == _CLOCK:
        context.stamp(context.aligned(va, 8))


def event_write(state: State, words: tuple[int, ...]) -> bool:
    """Only CS_PARTIAL_FLUSH: all dispatches have ended."""
    event, index = bits(words[0], 5, 0), bits(words[0], 11, 8)
    if event != _CS_PARTIAL_FLUSH or index != _PARTIAL_FLUSH or len(words) != 1:
        raise state.context.fault("unsupported", f"event {event:#x} with index {index}")
    state.context.waves.ended()
    return True


def cond_exec(state: State, words: tuple[int, ...], stream: Stream) -> bool:
    """Discard the next words when the dword in memory is 0."""
    va = state.context.aligned(join(words[0], words[1]), 4)
    if state.context.read_int(va, 4) == 0:
        stream.skip = bits(words[3], 13, 0)
    return True


def pred_exec(state: State, words: tuple[int, ...], stream: Stream) -> bool:
    """Only the XCCs of the mask execute the next words."""
    if stream.size_dw:
        # src: tinygrad ops_amd.py: the packet works in indirect buffers only, not in rings.
        raise state.context.fault("order", "only in an indirect buffer")
    mask = bits(words[0], 31, 24)
    stream.masked = bits(words[0], 13, 0)
    stream.xccs = tuple(xcc for xcc in state.everyone if mask >> xcc & 1)
    return True


def indirect_buffer(state: State, words: tuple[int, ...], stream: Stream, after: int) -> bool:
    """Start an indirect buffer, or go over to another one from the end of one (chain)."""
    context, control = state.context, words[2]
    chain, count = bits(control, 20, 20), bits(control, 19, 0)
    kernel = context.spec.kernel
    if not bits(control, 23, 23) and not (kernel is not None and kernel.role == "graphics"):
        raise context.fault("reserved value", "VALID is not set")
    if bits(control, 27, 24):
        raise context.fault("reserved value", "a process may not choose a VMID")
    if not count:
        raise context.fault("wrong length", "an indirect buffer without words")
    if not stream.size_dw and not chain:
        raise context.fault("nested", "an indirect buffer of a compute queue has none inside")
    if chain and (stream.size_dw or after != stream.limit):
        raise context.fault("nested", "a chain is the last packet of an indirect buffer")
    state.chained = state.chained + 1 if chain else 0
    if state.chained > _CHAINED_MAX:
        raise Hung(f"{_CHAINED_MAX} indirect buffers chained")
    state.buffer = Stream(join(words[0], words[1]), count)
    return True
