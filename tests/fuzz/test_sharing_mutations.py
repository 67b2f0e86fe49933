"""Descriptions of memory at random: DLPack's capsules, and from_blob's arguments.

Wrong ones are refused by errors of ours; right ones are numpy's view of the memory. What a capsule
names is trusted (docs/sharing.md), so that nothing is read unless it lies in memory of the test.
"""

from __future__ import annotations

import gc
import mmap
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tensor as xp
from drivers.base.errors import DeviceError
from drivers.registry import this_machine
from tensor import engine
from tests.dlpack_maker import Producer
from tests.share import part
from tests.support import check

CASES: Final = 20_000
ROUNDS: Final = 10
MEMORY: Final = np.arange(4096, dtype=np.float32)
PLACE: Final = int(MEMORY.ctypes.data)
F32: Final = (2, 32, 1)
NUMBERS: Final = tuple(
    sign * (1 << bits) + more
    for bits in (0, 1, 2, 6, 12, 31, 32, 40, 48, 61, 62, 63) for sign in (1, -1)
    for more in (-1, 0, 1) if -(1 << 63) <= sign * (1 << bits) + more < 1 << 63
)  # fmt: skip
TYPES: Final = (*range(-1, 20), 99, (1 << 31) - 1, -(1 << 31))
NAMED: Final[tuple[Any, ...]] = (
    None,
    (),
    (1,),
    (1, 0, 0),
    "10",
    ("1", "0"),
    1,
    (1, None),
    (1.0, 0),
)


@pytest.fixture(autouse=True, scope="module")
def devices_of_this_module() -> Iterator[None]:
    """A capsule may name a device that this machine has: it is closed at the end."""
    with engine.on_machine(this_machine()):
        yield


def number(rng: random.Random, small: int = 8) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.2 else rng.randrange(-2, small)


class Mutated(Producer):
    """Words of it are changed; it may name another device, or give another object."""

    named: Any = (1, 0)
    given: Any = None

    def __dlpack__(self, **asked: Any) -> Any:
        return super().__dlpack__(**asked) if self.given is None else self.given

    def __dlpack_device__(self) -> Any:
        return self.named


def producer(rng: random.Random) -> Mutated:
    shape = tuple(abs(number(rng, 6)) % (1 << 63) for _ in range(rng.randrange(4)))
    strides = tuple(number(rng, 40) for _ in shape) if rng.random() < 0.7 else None
    said = (1, 0)
    if rng.random() < 0.1:
        said = rng.choice(TYPES), number(rng) % (1 << 31)
    dtype = F32
    if rng.random() < 0.1:
        dtype = rng.randrange(256), rng.choice((0, 1, 4, 7, 8, 16, 32, 64, 255)), rng.randrange(4)
    made = Mutated(
        PLACE + 4 * rng.randrange(2048) if rng.random() < 0.9 else rng.getrandbits(64), shape,
        dtype, device=said, strides=strides,
        byte_offset=4 * rng.randrange(64) if rng.random() < 0.8 else rng.getrandbits(64),
        version=rng.choice(((1, 1), (1, 0), (1, 99), None, (0, 8), (2, 0))[: rng.choice((2, 6))]),
        flags=rng.choice((0, 1, 2, 3, 1 << 40)),
    )  # fmt: skip
    made.named = said if rng.random() < 0.9 else rng.choice((*NAMED, (1, 0), (2, 0), (3, 0)))
    tensor = made.managed.dl_tensor
    if rng.random() < 0.03:
        tensor.ndim = rng.choice((-1, 65, 1 << 30, -(1 << 31)))
    if rng.random() < 0.03:
        tensor.shape = None
    if rng.random() < 0.03:
        made.given = rng.choice((5, "dltensor", b"dltensor", object(), np.empty(1)))
    return made


def inside(first: int, shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> bool:
    """Whether all elements of 4 bytes lie in so many bytes, the first at `first`."""
    reach = [4 * (n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = first + sum(r for r in reach if r < 0)
    return low >= 0 and first + sum(r for r in reach if r > 0) + 4 <= nbytes


def compare(x: Any, source: Mutated) -> bool:
    """Whether the elements are in memory of the test, where they must be numpy's."""
    tensor = source.managed.dl_tensor
    first = (tensor.data or 0) + tensor.byte_offset - PLACE
    if x.dtype is not xp.float32 or x.size > MEMORY.size or not x.size:
        return False
    shape, dense = x.shape, np.empty(x.shape, np.float32).strides
    strides = tuple(s // 4 for s in dense) if not tensor.strides else tuple(
        tensor.strides[: len(shape)])  # fmt: skip
    if not inside(first, shape, strides, MEMORY.nbytes) or first % 4:
        return False
    flat = MEMORY[first // 4 :]
    wanted = as_strided(
        flat, shape, [4 * s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
    )
    np.testing.assert_array_equal(x.numpy(), wanted)
    return True


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_dlpack(seed: int) -> None:
    rng, found, read, sources = random.Random(seed), Counter[str](), 0, []
    for _ in range(part(CASES // ROUNDS, 200)):
        source = producer(rng)
        sources.append(source)
        device = rng.choice(("CPU", "CPU", None))
        try:
            # Without a copy nothing is read: steps may lead anywhere.
            x = xp.from_dlpack(source, device=device, copy=False)
        except (BufferError, DeviceError) as error:
            found[type(error).__name__] += 1
            del error
        else:
            found["taken"] += 1
            if read < 12:  # each other layout is a kernel to compile
                read += compare(x, source)
            del x
    gc.collect()
    xp.zeros(3, device="CPU").realize()  # the next allocation gives all up
    check(all(one.deleted == len(one.asked) for one in sources), "each given back once")
    check(found["BufferError"] and found["taken"] and read, f"{found}")


ODD: Final[tuple[Any, ...]] = (
    None, "x", 1.5, float("nan"), [], (), {}, True, False, b"1", object(), np.int64(5),
    np.float32(2),
)  # fmt: skip
DTYPES: Final[tuple[Any, ...]] = (
    "float32", "float64", "int8", "bool", "int64", "bfloat16", "complex64", "x", "", None, 5, float,
    np.float32, ">f4", np.dtype("V8"), np.dtype("U3"), np.dtype([("a", "f4")]), np.dtype("O"),
    "float8_e4m3fn", "M8[s]",
)  # fmt: skip
POINTERS: Final[tuple[Any, ...]] = (
    PLACE, PLACE, PLACE, PLACE, PLACE + 1, PLACE - 4, 0, 1, 0x1000, 1 << 47, 1 << 63, (1 << 64) - 1,
    1 << 64, -1, -PLACE, True, None, "x", 1.5, np.uint64(PLACE),
)  # fmt: skip
WIDE: Final = (*NUMBERS, 1 << 64, 1 << 70, -(1 << 70))


def value(rng: random.Random) -> Any:
    pick = rng.random()
    return rng.randrange(1, 17) if pick < 0.6 else rng.choice(WIDE if pick < 0.9 else ODD)


def values(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return rng.choice(ODD)
    return [value(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5, 65)))]


def owners() -> tuple[Any, ...]:
    """Memory that is there, is gone, is read-only, is not contiguous, or is none."""
    with mmap.mmap(-1, 4096) as closed:
        pass
    released = memoryview(bytearray(64))
    released.release()
    locked = np.arange(4, dtype=np.float32)
    locked.flags.writeable = False
    return (
        MEMORY, MEMORY, MEMORY, None, mmap.mmap(-1, 4096), closed, released, locked, b"12345678", 5,
        "x", object(), MEMORY[::2], np.zeros(0), np.array(["x"], dtype=object),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_from_blob(seed: int) -> None:
    rng, found, owned = random.Random(seed), Counter[str](), owners()
    for _ in range(part(CASES // ROUNDS, 200)):
        shape = values(rng) if rng.random() < 0.7 else [rng.choice((1, 4, 8, 64))]
        dtype = rng.choice(DTYPES) if rng.random() < 0.4 else "float32"
        more: dict[str, Any] = {"owner": rng.choice(owned), "device": "CPU"}
        for name, chance, make in (
            ("strides", 0.2, values), ("offset", 0.3, value), ("nbytes", 0.2, value),
        ):  # fmt: skip
            if rng.random() < chance:
                more[name] = make(rng)
        if rng.random() < 0.3:
            more["readonly"] = rng.choice((True, False, 1, "x", None))
        if rng.random() < 0.15:
            more["kind"] = rng.choice(("address", "cl_mem", "dmabuf", "", "x", None, 5, "svm"))
        try:
            xp.from_blob(rng.choice(POINTERS), shape, dtype, **more)
        except (DeviceError, TypeError, ValueError) as error:
            found[type(error).__name__] += 1
            del error
        else:
            found["taken"] += 1
    check(found["BadArgument"] and found["TypeError"] and found["taken"], f"{found}")
