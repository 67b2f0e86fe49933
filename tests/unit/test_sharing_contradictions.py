"""DLPack of a producer that is wrong: refused before anything is read, and given back once."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from boards.front import Setup, power_on
from drivers.registry import open_device
from tensor import engine
from tests.dlpack_maker import CPU, CUDA, CUDA_HOST, DESTRUCTOR, METAL, OPENCL, ROCM, Producer
from tests.support import check

F32: Final = (2, 32, 1)
COUNT: Final = 64
ARRAY: Final = np.arange(COUNT, dtype=np.float32)
PLACE: Final = int(ARRAY.ctypes.data)
TOP: Final = 1 << 64


class Liar(Producer):
    """It names another device than its capsules do."""

    named: Any = (CPU, 0)

    def __dlpack_device__(self) -> Any:
        return self.named


def liar(named: Any, **more: Any) -> Liar:
    made = Liar(PLACE, (4,), F32, **more)
    made.named = named
    return made


def refused_once(source: Producer, match: str, **more: Any) -> None:
    with pytest.raises(BufferError, match=match):
        xp.from_dlpack(source, **more)
    gc.collect()
    check(source.deleted == len(source.asked), f"{source.deleted} of {len(source.asked)}")


@pytest.mark.parametrize("said", [(CUDA, 0), (OPENCL, 0), (METAL, 0), (ROCM, 3), (CUDA_HOST, 0),
                                  (CPU, 3), (0, 0), (99, 0), (-1, 0)])  # fmt: skip
def test_a_capsule_of_another_device_than_its_producer_named(said: tuple[int, int]) -> None:
    refused_once(liar((CPU, 0), device=said), r"capsule of device .*\(1, 0\) was asked for")
    refused_once(liar((99, 0), device=said), r"where \(1, 0\) was asked for", device="CPU")


@pytest.mark.parametrize("named", [("a",), None, (1, 0, 0), (1.0, 0), "10", 1, (CPU, None)])
def test_devices_that_are_no_pair(named: object) -> None:
    refused_once(liar(named), r"pair of numbers such as \(1, 0\)")
    if named is not None:
        for name in ("dl_device", "max_version"):
            with pytest.raises(BufferError, match=f"{name} is .* pair of numbers"):
                xp.ones(2, device="CPU").__dlpack__(**{name: named})


@pytest.mark.parametrize("named", [(0, 0), (-1, 0), (CPU, -1), (1 << 31, 0), (CPU, 1 << 31)])
def test_device_types_and_numbers_that_dlpack_has_none_of(named: tuple[int, int]) -> None:
    refused_once(liar(named), "which DLPack has none of")
    refused_once(liar(named), "which DLPack has none of", device="CPU")
    with pytest.raises(BufferError, match="none of"):
        xp.ones(2, device="CPU").__dlpack__(dl_device=named)


def test_type_0_is_no_device_where_a_kind_has_no_type() -> None:
    """AMD's tensors have no DLPack type: the 0 that says so is no key."""
    front = power_on(Setup("gfx1100"))
    device = open_device("AMD", world=front.world, environ=front.environ)
    try:
        with engine.adopted("AMD", device):
            refused_once(liar((0, 0), device=(0, 0)), "device type 0")
            refused_once(liar((7, 0), device=(7, 0)), "device type 7 is not host memory")
            x = xp.ones(2, device="AMD")
            for asked in ((0, 0), (ROCM, 0)):
                with pytest.raises(BufferError):
                    x.__dlpack__(dl_device=asked)
            del x
    finally:
        device.close()


NOWHERE: Final[dict[str, dict[str, Any]]] = {
    "null": {"data": 0},
    "null and an offset": {"data": 0, "byte_offset": PLACE},
    "an offset below 0": {"data": PLACE + 8, "byte_offset": TOP - 8},
    "past 2**64 by the offset": {"byte_offset": TOP - PLACE},
    "past 2**64 by a step": {"data": TOP - 4096, "strides": (1024,)},
    "past 2**64 by the shape": {"data": TOP - 4, "shape": (2,)},
    "the last offset": {"byte_offset": TOP - 1},
    "below 0": {"data": 4096, "strides": (-4096,)},
    "strides of 2**62": {"strides": (1 << 62,)},
    "strides of -2**62": {"strides": (-(1 << 62),)},
    "strides of -2**63": {"strides": (-(1 << 63),)},
    "2**62 elements": {"shape": (1 << 62,)},
    "2**80 elements": {"shape": (1 << 40, 1 << 40)},
    "2**80 elements, repeated": {"shape": (1 << 40, 1 << 40), "strides": (0, 0)},
    "a shape below 0": {"shape": (-4,)},
}


@pytest.mark.parametrize("name", NOWHERE)
def test_elements_that_cannot_be_anywhere(name: str) -> None:
    said: dict[str, Any] = {"data": PLACE, "shape": (4,), **NOWHERE[name]}
    for device in ("CPU", None):
        source = Producer(said["data"], said["shape"], F32, strides=said.get("strides"),
                          byte_offset=said.get("byte_offset", 0))  # fmt: skip
        refused_once(source, "capsule of .*(report it|more elements)", device=device)


def test_steps_of_axes_that_do_not_move_are_not_looked_at() -> None:
    huge = 1 << 62
    x = xp.from_dlpack(Producer(PLACE, (1, 4), F32, strides=(huge, 1)), device="CPU")
    np.testing.assert_array_equal(x.numpy(), ARRAY[None, :4])
    nothing = xp.from_dlpack(Producer(0, (0, 3), F32, strides=(-huge, huge)), device="CPU")
    check(nothing.shape == (0, 3) and nothing.numpy().size == 0, "of no elements")


def test_axes_without_sizes() -> None:
    source = Producer(PLACE, (4,), F32)
    source.managed.dl_tensor.shape = None
    refused_once(source, "1 axes and no shape")


class PyCapsule:
    """A class of the name and the text of a capsule."""

    def __repr__(self) -> str:
        return '<capsule object "dltensor" at 0x7f0000000000>'


def of_name(name: bytes | None) -> Any:
    """A real capsule of any name."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR)
    return make(ctypes.addressof(_KEPT), name, DESTRUCTOR())


_KEPT: Final = (ctypes.c_char * 256)()
NAMES: Final = (None, b"", b"dltensors", b"dltensor ", b'dltensor"x', b'x"dltensor', b"DLTENSOR",
                b'dltensor" at 0x1> <capsule object "dltensor', b"\xff\xfe")  # fmt: skip
OTHERS: Final = (None, 5, "dltensor", b"dltensor", object(), PyCapsule(), PyCapsule)


@pytest.mark.parametrize("number", range(len(NAMES) + len(OTHERS)))
def test_capsules_are_known_by_their_type_and_whole_name(number: int) -> None:
    given = of_name(NAMES[number]) if number < len(NAMES) else OTHERS[number - len(NAMES)]

    class Gives:
        def __dlpack__(self, **_: Any) -> Any:
            return given

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU, 0

    with pytest.raises(BufferError, match="no DLPack capsule"):
        xp.from_dlpack(Gives())


def test_half_a_protocol_is_none() -> None:
    class Half:
        def __dlpack__(self, **_: Any) -> Any:
            return None

    with pytest.raises(TypeError, match="Half has no __dlpack_device__; use asarray"):
        xp.from_dlpack(Half())


@pytest.mark.parametrize("use", ["nothing", "numpy", "sum"])
def test_the_deleter_runs_once_after_the_last_use(use: str) -> None:
    source = Producer(PLACE, (COUNT,), F32)
    x = xp.from_dlpack(source, device="CPU")
    if use == "numpy":
        check(float(x.numpy()[3]) == 3)
    elif use == "sum":
        check(float(xp.sum(x)) == ARRAY.sum())
    check(source.deleted == 0, "in use")
    del x
    for _ in range(3):
        gc.collect()
        xp.zeros(3, device="CPU").realize()  # the next allocation gives it up
    check(source.deleted == 1, f"{source.deleted} times")


@pytest.mark.parametrize("way", ["from_dlpack", "from_blob", "asarray"])
def test_lent_memory_is_not_kept(way: str) -> None:
    """Twelve owners in turn: at most the last one is still there."""

    class Owner(np.ndarray[Any, Any]):
        pass

    owners: list[weakref.ref[Any]] = []
    for _ in range(12):
        array = np.ones(1 << 10, np.float32).view(Owner)
        owners.append(weakref.ref(array))
        if way == "from_blob":
            x = xp.from_blob(array.ctypes.data, array.shape, "float32", "CPU", owner=array)
        else:
            x = {"from_dlpack": xp.from_dlpack, "asarray": xp.asarray}[way](array, device="CPU")
        check(float(xp.sum(x[:100])) == 100)
        del array, x
        gc.collect()
        alive = sum(owner() is not None for owner in owners)
        check(alive <= 1, f"{alive} owners")
