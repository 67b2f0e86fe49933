"""Atomics: on shared memory, by address (.g) and by descriptor (.b). Lanes go in their order.

A pair for cmpxchg is the new value and what is compared. # src: Mesa 25.0.7, ir3_compiler_nir.c,
emit_intrinsic_atomic_shared; src/freedreno/isa/ir3-cat6.xml
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Addresses, Array
from boards.qcom.isa.instruction import Instruction
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.convert import S32, U32
from boards.qcom.wave.lanes import Registers, address, chosen, reads, writes
from boards.qcom.wave.memory import aligned
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.state import Waves

Run = Callable[[Waves], None]
Access = Callable[[Array], Array]
Update = Callable[[Array, Array], None]
_COMPARES: Final = "cmpxchg"
OPERATIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "xchg": lambda old, new: new,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def operation(name: str, kind: int) -> Callable[[Array, Array, Array], Array]:
    """(old, data, compared) to the new value, of uint32. Raises: NotModelled."""
    if kind not in (U32, S32):
        raise NotModelled(f"an atomic of type {kind}")
    if name == _COMPARES:
        return lambda old, data, compared: np.where(old == compared, data, old)
    if name not in OPERATIONS:
        raise NotModelled("no meaning in this executor")
    function, view = OPERATIONS[name], np.int32 if kind == S32 else np.uint32
    return lambda old, data, _: function(old.view(view), data.view(view)).view(np.uint32)


def in_turn(
    place: Array, data: Array, compared: Array, change: Callable[[Array, Array, Array], Array],
    load: Access, store: Update,
) -> Array:  # fmt: skip
    """Lanes of one place one after the other; what each of them found."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    first = np.ones(len(place), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(place)), 0))
    turn = np.arange(len(place)) - starts
    answer = np.empty(len(place), np.uint32)
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    begin = 0
    for end in ends:
        who = order[by_turn[begin:end]]
        old = load(place[who])
        store(place[who], change(old, data[who], compared[who]))
        answer[who], begin = old, int(end)
    return answer


def bind_local(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    word, name = inst.word, inst.op.removeprefix("atomic.")
    change = operation(name, bits(word, 49, 51))
    if bits(word, 22, 22):
        raise NotModelled("an immediate address")
    base = reads(uses, bits(word, 14, 21))
    data = _data(word, uses, name)
    target = writes(uses, bits(word, 32, 39))

    def run(w: Waves) -> None:
        at = chosen(w)
        memory = w.local_memory
        place = memory.place(w, at, base.read(w, 0, at).astype(np.int64), 4)
        memory.races.atomic(w, at, place)
        new, compared = data(w, at)
        old = in_turn(place, new, compared, change, memory.words, memory.put_words)
        target.write(w, 0, at, old)

    return run


def _data(word: int, uses: Uses, name: str) -> Callable[[Waves, Array | None], tuple[Array, Array]]:
    if bits(word, 23, 23):
        value = np.array([bits(word, 24, 31)], np.uint32)

        def fixed(w: Waves, at: Array | None) -> tuple[Array, Array]:
            whole = np.broadcast_to(value, w.count * w.lanes if at is None else len(at))
            return whole, whole

        return fixed
    return pair_of(reads(uses, bits(word, 24, 31), 1 + (name == _COMPARES)), 0)


def pair_of(
    registers: Registers, first: int
) -> Callable[[Waves, Array | None], tuple[Array, Array]]:
    """The data, and what follows it if there is more."""
    last = registers.count - 1
    return lambda w, at: (registers.read(w, first, at), registers.read(w, last, at))


def global_access(w: Waves) -> tuple[Access, Update]:
    """Words of GPU memory by address."""
    memory = w.memory

    def load(va: Addresses) -> Array:
        return np.asarray(memory.gather(va, 4, 1)[:, 0])

    return load, lambda va, data: memory.scatter(va, data[:, None])


def bind_global(inst: Instruction, uses: Uses) -> Run:
    """Raises: NotModelled."""
    word, name = inst.word, inst.op.removeprefix("atomic.g.")
    change = operation(name, bits(word, 49, 51))
    base = reads(uses, bits(word, 14, 21), 2)
    data = _data(word, uses, name)
    target = writes(uses, bits(word, 32, 39))

    def run(w: Waves) -> None:
        at = chosen(w)
        va = aligned(w, address(base.read(w, 0, at), base.read(w, 1, at)), 4)
        new, compared = data(w, at)
        load, store = global_access(w)
        target.write(w, 0, at, in_turn(va, new, compared, change, load, store))

    return run
