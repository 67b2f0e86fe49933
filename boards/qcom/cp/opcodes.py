"""What each packet does; how many words it may have.

src: Mesa 25.0.7, adreno_pm4.xml; what Turnip and computerator emit for compute
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from boards.machine.arrays import Words
from boards.qcom.cp.blit import blit
from boards.qcom.cp.events import event
from boards.qcom.cp.faults import OPCODE_ERROR, GpuFault
from boards.qcom.cp.processor import Handler, Processor, Wait

_ANY = 0x3FFF
_COMPARE: tuple[Callable[[int, int], bool], ...] = (
    lambda value, ref: True, operator.lt, operator.le, operator.eq, operator.ne, operator.ge,
    operator.gt,
)  # fmt: skip


def _address(words: Words, at: int) -> int:
    return int(words[at]) | int(words[at + 1]) << 32


def _nothing(cp: Processor, words: Words) -> None:
    """State of graphics, preemption and binning, which compute does not meet."""


def _wait_mem_writes(cp: Processor, words: Words) -> None:
    cp.machine.caches.landed = cp.machine.caches.writes


def _wait_for_idle(cp: Processor, words: Words) -> None:
    cp.machine.caches.wait_idle()


def _thread_control(cp: Processor, words: Words) -> None:
    cp.threads = int(words[0])


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _wait_mem_gte(cp: Processor, words: Words) -> Wait:
    va, ref = _address(words, 1), _signed(int(words[3]))
    return cp.until(lambda: _signed(cp.read32(va)) >= ref, va)


def _wait_reg_mem(cp: Processor, words: Words) -> Wait:
    head, ref, mask = int(words[0]), int(words[3]), int(words[4])
    poll, signed = head >> 4 & 3, bool(head & 8)
    if head & 7 >= len(_COMPARE) or poll > 1:
        raise GpuFault(OPCODE_ERROR, f"WAIT_REG_MEM of function {head & 7}, poll {poll}")
    compare = _COMPARE[head & 7]
    va = _address(words, 1)
    if poll and va & 3:
        raise GpuFault(OPCODE_ERROR, f"WAIT_REG_MEM at {va:#x}")

    def holds() -> bool:
        value = (cp.read32(va) if poll else cp.register(va & 0x3FFFF)) & mask
        return compare(_signed(value), _signed(ref)) if signed else compare(value, ref)

    return cp.until(holds, va)


def _mem_write(cp: Processor, words: Words) -> None:
    caches = cp.machine.caches
    if caches.running or caches.dirty:
        what = "CP_MEM_WRITE while a dispatch may run, or its results are in UCHE"
        cp.machine.find("early write", what)
    cp.write(_address(words, 0), words[2:].tobytes())


def _reg_to_mem(cp: Processor, words: Words) -> None:
    head = int(words[0])
    count = max(head >> 18 & 0xFFF, 1)
    first = head & 0x3FFFF
    if head >> 31:
        cp.machine.find("unmodelled", "REG_TO_MEM with ACCUMULATE")
    if head >> 30 & 1:
        count = max(count, 2)
    values = b"".join(cp.register(first + n).to_bytes(4, "little") for n in range(count))
    cp.write(_address(words, 1), values)


def _mem_to_reg(cp: Processor, words: Words) -> None:
    head = int(words[0])
    count = max(head >> 19 & 0x7FF, 1)
    va = _address(words, 1)
    values = [cp.read32(va + 4 * n) for n in range(count)]
    shift = 2 * (head >> 30 & 1)
    cp.write_registers(head & 0x3FFFF, [value << shift & 0xFFFFFFFF for value in values])


def _mem_to_mem(cp: Processor, words: Words) -> None:
    head = int(words[0])
    if len(words) % 2 == 0:
        raise GpuFault(OPCODE_ERROR, f"MEM_TO_MEM of {len(words)} words")
    if head >> 30 & 1:
        cp.machine.caches.landed = cp.machine.caches.writes
    nbytes = 8 if head >> 29 & 1 else 4
    total = 0
    for number, at in enumerate(range(3, len(words), 2)):
        value = int.from_bytes(cp.read(_address(words, at), nbytes).tobytes(), "little")
        total += -value if head >> number & 1 else value
    cp.write(_address(words, 1), (total % (1 << 8 * nbytes)).to_bytes(nbytes, "little"))


def _memcpy(cp: Processor, words: Words) -> None:
    count = int(words[0]) * 4
    cp.write(_address(words, 3), cp.read(_address(words, 1), count).tobytes())


def _indirect_buffer(cp: Processor, words: Words) -> tuple[int, int]:
    return _address(words, 0), int(words[2]) & 0xFFFFF


def _load_state(cp: Processor, words: Words) -> None:
    cp.load_state(words)


def _load_geometry(cp: Processor, words: Words) -> None:
    if int(words[0]) >> 18 & 0xF in (5, 13, 15):
        cp.machine.find("state block", "compute state by LOAD_STATE6_GEOM")


def _exec_cs(cp: Processor, words: Words) -> None:
    cp.dispatch((int(words[1]), int(words[2]), int(words[3])))


def _exec_cs_indirect(cp: Processor, words: Words) -> None:
    va = _address(words, 1)
    first = cp.registers.get(_ndrange(cp), 0)
    if (int(words[3]) ^ first) & ~3 & 0xFFFFFFFF:
        cp.machine.find("grid", "EXEC_CS_INDIRECT has another local size than NDRANGE_0")
    groups = [cp.read32(va + 4 * axis) for axis in range(3)]
    for axis, count in enumerate(groups):
        size = (first >> (2 + 10 * axis) & 0x3FF) + 1
        cp.registers[_ndrange(cp) + 1 + 2 * axis] = size * count & 0xFFFFFFFF
    cp.dispatch((groups[0], groups[1], groups[2]))


def _ndrange(cp: Processor) -> int:
    from boards.qcom.cp.registers import offsets

    return offsets(cp.machine.chip.generation).ndrange


def _run_opencl(cp: Processor, words: Words) -> None:
    from boards.qcom.cp.registers import offsets

    group = offsets(cp.machine.chip.generation).group
    groups = [cp.register(group + axis) for axis in range(3)]
    cp.dispatch((groups[0], groups[1], groups[2]))


def _set_marker(cp: Processor, words: Words) -> None:
    value = int(words[0])
    if not value >> 8 & 1 and value & 0xF in (0xD, 0xE):
        raise GpuFault(OPCODE_ERROR, "SET_MARKER of the kernel's own")
    if not value >> 8:
        cp.marker = value


def _cond_exec(cp: Processor, words: Words) -> int:
    goes = cp.read32(_address(words, 0)) != 0
    goes = goes and _signed(cp.read32(_address(words, 2))) < _signed(int(words[4]))
    return 0 if goes else int(words[5])


def _cond_reg_exec(cp: Processor, words: Words) -> int:
    """Render and thread modes alone: compute is neither binning nor of the BV thread."""
    head, skip = int(words[0]), int(words[len(words) - 1]) & 0xFFFFFF
    mode = head >> 28
    if mode == 3:
        return 0 if head >> 27 & 1 else skip
    if mode == 5:
        return 0 if head >> 26 & 1 else skip
    if mode == 2:
        return 0 if cp.register(head & 0x3FFFF) == cp.register(int(words[1]) & 0x3FFFF) else skip
    cp.machine.find("unmodelled", f"COND_REG_EXEC of mode {mode}")
    return 0


def _reg_write(cp: Processor, words: Words) -> None:
    cp.write_registers(int(words[1]) & 0x3FFFF, words[2:3])


def _reg_wr_no_ctxt(cp: Processor, words: Words) -> None:
    cp.write_registers(int(words[0]) & 0x3FFFF, words[1:])


def _reg_rmw(cp: Processor, words: Words) -> None:
    head = int(words[0])
    number = head & 0x3FFFF
    old = cp.scratch[number & 7] if head >> 19 & 1 else cp.register(number)
    src0 = cp.register(int(words[1])) if head >> 31 else int(words[1])
    src1 = cp.register(int(words[2])) if head >> 30 & 1 else int(words[2])
    turn = head >> 24 & 0x1F
    value = old & src0
    value = (value << turn | value >> (32 - turn)) & 0xFFFFFFFF
    value = (value + src1 if head >> 29 & 1 else value | src1) & 0xFFFFFFFF
    if head >> 19 & 1:
        cp.scratch[number & 7] = value
    else:
        cp.write_registers(number, [value])


def _scratch_write(cp: Processor, words: Words) -> None:
    first = int(words[0]) >> 20 & 7
    for index, value in enumerate(words[1:], first):
        cp.scratch[index & 7] = int(value)


def _scratch_to_reg(cp: Processor, words: Words) -> None:
    head = int(words[0])
    cp.write_registers(head & 0x3FFFF, [cp.scratch[head >> 20 & 7]])


HANDLERS: dict[int, Handler] = {
    0x10: Handler((0, _ANY), _nothing),
    0x12: Handler((0, 0), _wait_mem_writes),
    0x13: Handler((0, 0), _nothing),
    0x14: Handler((4, 4), _wait_mem_gte),
    0x17: Handler((1, 1), _thread_control),
    0x19: Handler((1, 1), _nothing),
    0x1A: Handler((1, 1), _nothing),
    0x1D: Handler((1, 1), _nothing),
    0x21: Handler((3, 3), _reg_rmw),
    0x23: Handler((1, 1), _nothing),
    0x26: Handler((0, 0), _wait_for_idle),
    0x2C: Handler((1, 1), blit),
    0x31: Handler((1, 1), _run_opencl),
    0x32: Handler((3, _ANY), _load_geometry),
    0x33: Handler((4, 4), _exec_cs),
    0x34: Handler((3, _ANY), _load_state),
    0x36: Handler((3, _ANY), _load_state),
    0x3A: Handler((0, 0), _nothing),
    0x3C: Handler((6, 6), _wait_reg_mem),
    0x3D: Handler((3, _ANY), _mem_write),
    0x3E: Handler((3, 3), _reg_to_mem),
    0x3F: Handler((3, 3), _indirect_buffer),
    0x41: Handler((4, 4), _exec_cs_indirect),
    0x42: Handler((3, 3), _mem_to_reg),
    0x43: Handler((3, _ANY), _nothing),
    0x44: Handler((6, 6), _cond_exec),
    0x46: Handler((1, 5), event),
    0x47: Handler((2, 3), _cond_reg_exec),
    0x4B: Handler((1, 1), _nothing),
    0x4C: Handler((2, _ANY), _scratch_write),
    0x4D: Handler((1, 1), _scratch_to_reg),
    0x55: Handler((3, 3), _nothing),
    0x56: Handler((3, _ANY), _nothing),
    0x63: Handler((1, 1), _nothing),
    0x64: Handler((1, 1), _nothing),
    0x65: Handler((1, 1), _set_marker),
    0x6D: Handler((3, 3), _reg_write),
    0x73: Handler((5, 9), _mem_to_mem),
    0x75: Handler((5, 5), _memcpy),
    0x78: Handler((2, _ANY), _reg_wr_no_ctxt),
}
