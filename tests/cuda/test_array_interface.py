"""`__cuda_array_interface__` of libraries that are wrong, or say what is not taken."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, DeviceError, Unsupported
from tests.cuda.test_lent import Array, Client, blob, client, numbers
from tests.dlpack_maker import Producer
from tests.nv_cubins import needs_nvrtc
from tests.share import part
from tests.support import check

pytestmark = needs_nvrtc
CASES: Final = 20_000
F32: Final = (2, 32, 1)
CUDA: Final = 2
RECORD: Final = np.dtype([("x", "<f4"), ("k", "<i2")])


def records() -> Any:
    """Records of six bytes, of which the first four are a float32."""
    made = np.zeros(8, RECORD)
    made["x"], made["k"] = np.arange(8) + 1, -1
    return made


def wrong(c: Client) -> dict[str, tuple[type[Exception], dict[str, Any]]]:
    """A changed word of a description, and its error."""
    va = c.memory(numbers())
    raw = c.memory(np.frombuffer(records().tobytes(), np.uint8))
    return {
        "a field of records": (Unsupported, {"data": (raw, False), "shape": (8,), "strides": (6,)}),
        "backwards": (Unsupported, {"data": (raw + 24, False), "strides": (-6,)}),
        "half an element": (Unsupported, {"strides": (2,)}),
        "mask": (Unsupported, {"mask": 1}),
        "no bytes": (TypeError, {"typestr": "|V0", "strides": (4,)}),
        "no characters": (TypeError, {"typestr": "<U0", "strides": (4,)}),
        "complex": (TypeError, {"typestr": "<c8"}),
        "big-endian": (TypeError, {"typestr": ">f4"}),
        "typestr 5": (BadArgument, {"typestr": 5}),
        "typestr None": (BadArgument, {"typestr": None}),
        "a name": (BadArgument, {"typestr": "float32"}),
        "fields": (BadArgument, {"typestr": "<f4,<f4"}),
        "of Python": (BadArgument, {"typestr": "(2,a)f4"}),
        "no such": (BadArgument, {"typestr": "<f3"}),
        "2**64 bytes": (BadArgument, {"shape": (1 << 62,)}),
        "2**82 bytes": (BadArgument, {"shape": (1 << 40, 1 << 40), "strides": (0, 0)}),
        "below 0": (BadArgument, {"shape": (-1,)}),
        "a text": (BadArgument, {"shape": "44"}),
        "a half": (BadArgument, {"shape": (4.0,)}),
        "data None": (BadArgument, {"data": None}),
        "one word": (BadArgument, {"data": (va,)}),
        "odd right": (BadArgument, {"data": (va, "no")}),
        "null": (BadArgument, {"data": (0, False)}),
        "pointer -1": (BadArgument, {"data": (-1, False)}),
        "pointer 2**64": (BadArgument, {"data": (1 << 64, False)}),
        "pointer 10**400": (BadArgument, {"data": (10**5000, False)}),
        "the host's": (BadArgument, {"data": (numbers().ctypes.data, False)}),
        "too few strides": (BadArgument, {"shape": (2, 2), "strides": (4,)}),
        "strides 'x'": (BadArgument, {"strides": "x"}),
        "strides 5": (BadArgument, {"strides": 5}),
        "a float": (BadArgument, {"strides": (4.0,)}),
        "2**63": (BadArgument, {"strides": (1 << 63,)}),
        "-2**64": (BadArgument, {"strides": (-(1 << 64),)}),
        "version": (BadArgument, {"version": "x"}),
        "version None": (BadArgument, {"version": None}),
        **{f"stream {stream!r}": (BadArgument, {"stream": stream})
           for stream in (0, -1, -5, 1 << 64, 1 << 70, "x", 1.0, None.__class__)},
    }  # fmt: skip


def test_each_wrong_word_has_its_error() -> None:
    with client() as c:
        va = c.memory(numbers())
        for name, (kind, said) in wrong(c).items():
            with pytest.raises(kind) as caught:
                xp.asarray(Array(**{"shape": (4,), "data": (va, False), **said}))
            check(type(caught.value) is kind, f"{name}: {caught.value!r}")
        for missing in ("shape", "data", "typestr", "version"):
            array = Array(shape=(4,), data=(va, False))
            del array.said[missing]
            with pytest.raises(BadArgument, match=f"has no '{missing}'"):
                xp.asarray(array)
        for said in (5, None, [], "x"):
            other: Any = Array()
            other.said = said
            with pytest.raises(BadArgument, match="not a mapping"):
                xp.asarray(other)


def test_whole_elements_of_records_are_taken() -> None:
    with client() as c:
        rows = np.arange(32, dtype=np.float32).reshape(8, 4)
        va = c.memory(rows)
        x = xp.asarray(Array(shape=(8,), data=(va + 4, False), strides=(16,)))
        np.testing.assert_array_equal(x.numpy(), rows[:, 1])
        y = xp.asarray(Array(shape=(8, 1), data=(va + 112, False), strides=(-16, 3)))
        np.testing.assert_array_equal(y.numpy(), rows[::-1, :1])  # a step of one element is none
        z = xp.asarray(Array(shape=[2, 4], data=[np.int64(va), np.bool_(False)], version=2))
        np.testing.assert_array_equal(z.numpy(), rows[:2])
        del x, y, z


def test_streams_and_addresses_beyond_64_bits() -> None:
    with client() as c:
        va = c.memory(numbers())
        x = xp.asarray(numbers(), device="CUDA") + 1
        for stream in (0, -2, 1 << 64, 1 << 70, -(1 << 70), 10**5000, "1", 1.0, True):
            with pytest.raises(BufferError, match="names no CUDA stream"):
                x.__dlpack__(stream=stream)
        for offset in (1 << 62, -(1 << 62), 1 << 70, -va):
            with pytest.raises(BadArgument, match="outside of"):
                blob(va, (4,), offset=offset)
        for more in ({"byte_offset": (1 << 64) - va}, {"strides": (1 << 62,)}):
            with pytest.raises(BufferError, match="report it"):
                xp.from_dlpack(Producer(va, (4,), F32, device=(CUDA, 0), **more))
        liar = Producer(va, (4,), F32, device=(1, 0))
        liar.device = (CUDA, 0)
        with pytest.raises(BufferError, match=r"device \(1, 0\), where \(2, 0\)"):
            xp.from_dlpack(liar)
        del x


WORDS: Final = (0, 1, -1, 2, 3, 4, 6, 8, -4, 63, 1 << 12, 1 << 31, 1 << 32, 1 << 48, 1 << 62,
                (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 70, -(1 << 63))  # fmt: skip
ODD: Final[tuple[Any, ...]] = (None, "x", b"4", 1.5, float("nan"), [], (), {}, True, object(),
                               np.int64(4), np.float32(4), np.zeros(2), 10**5000)  # fmt: skip
TYPESTRS: Final[tuple[Any, ...]] = (
    "<f4", "<f4", "<i4", "|u1", "<f8", "<f2", "|b1", "<c8", ">f4", "|V0", "<U0", "|V6", "<M8",
    "|O8", "<f4,<f4", "(2,a)f4", "f4", "<f999999999", "<f9999999999", "=f4", "", "<f4\n", 4, None,
)  # fmt: skip


def word(rng: random.Random) -> Any:
    pick = rng.random()
    return rng.randrange(1, 9) if pick < 0.6 else rng.choice(WORDS if pick < 0.9 else ODD)


def words(rng: random.Random, count: int) -> Any:
    if rng.random() < 0.05:
        return rng.choice(ODD)
    made = [word(rng) for _ in range(count)]
    return made if rng.random() < 0.2 else tuple(made)


def description(rng: random.Random, va: int) -> dict[str, Any]:
    """An array interface of which some words are wrong."""
    axes = rng.randrange(4)
    pointer = va + 4 * rng.randrange(64) if rng.random() < 0.8 else word(rng)
    said: dict[str, Any] = {
        "shape": words(rng, axes), "typestr": "<f4" if rng.random() < 0.7 else rng.choice(TYPESTRS),
        "data": (pointer, rng.choice((False, True, 0))), "version": rng.choice((3, 3, 3, 2, 0)),
    }  # fmt: skip
    if rng.random() < 0.5:
        said["strides"] = words(rng, axes)
        if rng.random() < 0.6 and isinstance(said["strides"], tuple):
            said["strides"] = tuple(4 * one if type(one) is int else one for one in said["strides"])
    if rng.random() < 0.1:
        said["data"] = rng.choice(ODD)
    if rng.random() < 0.1:  # a handle that is none is trusted to be one: docs/sharing.md
        said["stream"] = rng.choice((None, 1, 2, 0, -1, 1 << 64, 1 << 70, "x", 1.5, object()))
    if rng.random() < 0.1:
        said[rng.choice(("version", "mask", "descr", "shape"))] = rng.choice(ODD)
    if rng.random() < 0.05:
        del said[rng.choice(list(said))]
    return said


def test_mutations() -> None:
    """Descriptions at random: taken, or refused by errors of ours."""
    rng, found = random.Random(3), Counter[str]()
    with client() as c:
        va = c.memory(numbers())
        for _ in range(part(CASES, 400)):
            said = description(rng, va)
            try:
                x = xp.asarray(Array(**said))
            except DeviceError as error:
                found[type(error).__name__] += 1
            except TypeError as error:
                check("is not a dtype here" in str(error) or "byte order" in str(error), f"{error}")
                found["TypeError"] += 1
            else:
                found["taken"] += 1
                check(x.device == "CUDA" and x.size * x.dtype.itemsize < 1 << 63, f"{x.shape}")
                del x
        check(set(found) == {"taken", "BadArgument", "Unsupported", "TypeError"}, f"{found}")
        check(found["taken"] > sum(found.values()) // 20, f"{found}")
