"""Atomic operations of the command processor and of the copy engines."""

from __future__ import annotations

from boards.amd.cp.context import Context

# src: soc21_enum.h GL2_OP: code of the 32-bit form that returns; +0x20 is 64-bit, +0x40 no return.
_SWAP, _CMPSWAP, _ADD, _SUB, _SMIN, _UMIN, _SMAX, _UMAX = 7, 8, 15, 16, 17, 18, 19, 20
_AND, _OR, _XOR, _INC, _DEC = 21, 22, 23, 24, 25
_IS_64, _NO_RETURN, _CODE = 0x20, 0x40, 0x1F
_KNOWN = frozenset((_SWAP, _CMPSWAP, *range(_ADD, _DEC + 1)))


def _signed(value: int, width_bits: int) -> int:
    return value - (1 << width_bits) if value >> width_bits - 1 else value


def _result(code: int, old: int, data: int, compare: int, width_bits: int) -> int:
    a, b = _signed(old, width_bits), _signed(data, width_bits)
    if code == _INC:
        return 0 if old >= data else old + 1
    if code == _DEC:
        return data if old == 0 or old > data else old - 1
    answers = {
        _SWAP: data, _CMPSWAP: data if old == compare else old, _ADD: old + data,
        _SUB: old - data, _SMIN: old if a <= b else data, _UMIN: min(old, data),
        _SMAX: old if a >= b else data, _UMAX: max(old, data), _AND: old & data,
        _OR: old | data, _XOR: old ^ data,
    }  # fmt: skip
    return answers[code] & (1 << width_bits) - 1


def atomic(context: Context, operation: int, va: int, data: int, compare: int) -> tuple[int, bool]:
    """Do one; (old value, whether a compare-and-swap found what it compared with).

    Raises: PacketFault for an operation this board lacks; MemoryFault.
    """
    code = operation & _CODE
    if code not in _KNOWN or operation >> 7:
        raise context.fault("unsupported", f"atomic operation {operation:#x}")
    nbytes = 8 if operation & _IS_64 else 4
    low = (1 << 8 * nbytes) - 1
    context.aligned(va, nbytes)
    old = context.read_int(va, nbytes)
    new = _result(code, old, data & low, compare & low, 8 * nbytes)
    context.write_int(va, new, nbytes)
    return old, code != _CMPSWAP or old == compare & low


def returns(operation: int) -> bool:
    """Whether the old value is kept for a COPY_DATA of ATOMIC_RETURN_DATA."""
    return not operation & _NO_RETURN
