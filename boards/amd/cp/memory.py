"""PM4 packets that move or wait for single values: WRITE_DATA, COPY_DATA, ATOMIC_MEM, WAIT_REG_MEM.

A handler takes the payload words; False means that the queue waits and asks again.
"""

from __future__ import annotations

from boards.amd.cp.atomics import atomic, returns
from boards.amd.cp.context import COMPARE, LOW32, bits, join
from boards.amd.cp.state import State

# src: nvd.h WRITE_DATA_DST_SEL; tinygrad pm4_nv.py COPY_DATA__SRC_SEL, __DST_SEL.
_REGISTER, _L2, _MEMORY = 0, 2, 5
_SOURCE_MEMORY = (1, 2)
_PERFCOUNTERS, _IMMEDIATE, _ATOMIC_RESULT, _GPU_CLOCK = 4, 5, 6, 9
_LOOP_UNTIL_EQUAL, _SINGLE_PASS = 1, 0
_WAIT_REG_MEM, _WRITE_WAIT = 0, 1
_REGISTER_BITS = 18


def write_data(state: State, words: tuple[int, ...]) -> bool:
    """Payload: control, address low, high, data..."""
    context, control, data = state.context, words[0], words[3:]
    target, same_place = bits(control, 11, 8), bits(control, 16, 16)
    if target == _REGISTER:
        for i, value in enumerate(data):
            state.write_register(words[1] + (0 if same_place else i), value)
        return True
    if target not in (_L2, _MEMORY):
        raise context.fault("unsupported", f"dst_sel {target}")
    va = context.aligned(join(words[1], words[2]), 4)
    if same_place:
        context.write_int(va, data[-1], 4)
    elif len(data) == 2 and va % 8 == 0:
        context.signal(va, join(data[0], data[1]), 8)
    else:
        context.write(va, b"".join(value.to_bytes(4, "little") for value in data))
    return True


def _source(state: State, words: tuple[int, ...], nbytes: int) -> int:
    context, select = state.context, bits(words[0], 3, 0)
    if select == _REGISTER:
        return state.read_register(words[1])
    if select in _SOURCE_MEMORY:
        return context.read_int(context.aligned(join(words[1], words[2]), nbytes), nbytes)
    if select == _IMMEDIATE:
        return join(words[1], words[2])
    if select == _GPU_CLOCK:
        return context.host.ticks()
    if select == _ATOMIC_RESULT:
        if state.atomic_result is None:
            raise context.fault("order", "no ATOMIC_MEM that returns was before this packet")
        return state.atomic_result
    if select == _PERFCOUNTERS:
        raise context.fault("unsupported", "this board has no performance counters")
    raise context.fault("unsupported", f"src_sel {select}")


def copy_data(state: State, words: tuple[int, ...]) -> bool:
    """Payload: control, source low, high, destination low, high."""
    context, target = state.context, bits(words[0], 11, 8)
    nbytes = 8 if bits(words[0], 16, 16) else 4
    value = _source(state, words, nbytes)
    if target == _REGISTER:
        state.write_register(words[3], value & LOW32)
    elif target in (_L2, _MEMORY):
        context.write_int(context.aligned(join(words[3], words[4]), nbytes), value, nbytes)
    else:
        raise context.fault("unsupported", f"dst_sel {target}")
    return True


def atomic_mem(state: State, words: tuple[int, ...]) -> bool:
    """Payload: operation and command, address, source, comparison, loop interval."""
    context, operation, command = state.context, bits(words[0], 6, 0), bits(words[0], 11, 8)
    if command not in (_SINGLE_PASS, _LOOP_UNTIL_EQUAL):
        raise context.fault("unsupported", f"command {command}")
    va, data, compare = join(words[1], words[2]), join(words[3], words[4]), join(words[5], words[6])
    if command == _LOOP_UNTIL_EQUAL:
        nbytes = 8 if operation & 0x20 else 4
        wanted = compare & (1 << 8 * nbytes) - 1
        if context.read_int(context.aligned(va, nbytes), nbytes) != wanted:
            return False
    for _ in state.xccs:
        old, _found = atomic(context, operation, va, data, compare)
        if returns(operation):
            state.atomic_result = old
    return True


def wait_reg_mem(state: State, words: tuple[int, ...]) -> bool:
    """Payload: control, address or two registers, reference, mask, poll interval."""
    context, control = state.context, words[0]
    function, space, operation = bits(control, 2, 0), bits(control, 5, 4), bits(control, 7, 6)
    if function not in COMPARE or space > 1 or operation not in (_WAIT_REG_MEM, _WRITE_WAIT):
        raise context.fault(
            "reserved value", f"function {function}, space {space}, operation {operation}"
        )
    reference, mask, va = words[3], words[4], 0
    if space == 1:
        if operation == _WRITE_WAIT:
            raise context.fault("reserved value", "write and wait is for registers")
        va = context.aligned(join(words[1], words[2]), 4)
        value = context.read_int(va, 4)
    elif words[1] >> _REGISTER_BITS or words[2] >> _REGISTER_BITS:
        raise context.fault("reserved bits", "a register has 18 bits")
    elif operation == _WRITE_WAIT:
        state.write_register(words[1], reference)
        value = state.read_register(words[2])
    else:
        value = state.read_register(words[1])
    if reference & ~mask & LOW32 and function == 3:
        context.find("endless wait", f"reference {reference:#x} has bits outside mask {mask:#x}")
    holds = COMPARE[function](value & mask, reference)
    if holds and space == 1 and va in context.waves.ends:
        context.waves.ended()
    return holds
