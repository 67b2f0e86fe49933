"""msm's rules that changed from release to release: each is broken once.

# src: Linux 5.15.107, 6.1.192, 6.6, 6.12.117, 7.3.4, drivers/gpu/drm/msm, as
boards/qcom/msm/behaviour.txt names them
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from boards.qcom.hardware import AdrenoOptions
from tests.qcom_boards import NOP, type7
from tests.qcom_msm import MsmClient, msm_client
from tests.support import check

RELEASES = ("5.15", "6.1", "6.6", "6.12", "6.17", "7.3")
PIPE, WC, MEM_WRITE = 0x10, 0x20000, 0x3D


def on(release: str) -> AdrenoOptions:
    return AdrenoOptions(iface="MSM", kernel=release, dram_bytes=1 << 24)


def _fails(number: int, does: Callable[[], object]) -> None:
    with pytest.raises(OSError, match=rf"Errno {number}\]"):
        does()


def _refused(does: Callable[[], object]) -> bool:
    """Whether a request is EINVAL."""
    try:
        does()
    except OSError as error:
        check(error.errno == errno.EINVAL, str(error))
        return True
    return False


def _refusals(what: Callable[[MsmClient], object]) -> list[str]:
    """The releases that answer a request with EINVAL."""
    found = []
    for release in RELEASES:
        with msm_client("a660", options=on(release)) as one:
            if _refused(partial(what, one)):
                found.append(release)
    return found


def test_versions() -> None:
    minors = []
    for release in RELEASES:
        with msm_client("a660", options=on(release)) as one:
            minors.append(one.call("version").minor)
    check(minors == [8, 9, 10, 12, 13, 13], str(minors))


@pytest.mark.parametrize(
    ("param", "refusing"),
    [(0xA, 0), (0xE, 1), (0xF, 1), (0x10, 3), (0x13, 3), (0x14, 4), (0x15, 4), (0x17, 5)],
)
def test_parameters_by_release(param: int, refusing: int) -> None:
    found = _refusals(lambda one: one.call("get_param", pipe=PIPE, param=param))
    check(found == list(RELEASES[:refusing]), str(found))


@pytest.mark.parametrize(
    ("name", "values", "refusing"),
    [
        ("set_param", {"pipe": PIPE, "param": 0x16, "value": 1}, 4),
        ("set_param", {"pipe": PIPE, "param": 0x15, "value": 1}, 6),
        ("get_param", {"pipe": PIPE, "param": 3, "len": 8}, 6),
        ("submitqueue_new", {"flags": 1, "prio": 1}, 4),
        ("submitqueue_new", {"flags": 2}, 6),
        ("gem_new", {"size": 4096, "flags": WC | 4}, 4),
        ("wait_fence", {"flags": 1}, 2),
        ("vm_bind", {"nr_ops": 0}, 6),
    ],
)
def test_requests_by_release(name: str, values: dict[str, int], refusing: int) -> None:
    found = _refusals(lambda one: one.call(name, **values))
    expected = list(RELEASES[:refusing])
    if "len" in values:
        expected = expected[1:]  # 5.15's struct ends before it
    check(found == expected, str(found))


@pytest.mark.parametrize(("info", "refusing"), [(1, 0), (4, 1), (5, 2), (7, 3)])
def test_facts_of_objects_by_release(info: int, refusing: int) -> None:
    def ask(one: MsmClient) -> None:
        handle = one.call("gem_new", size=4096, flags=WC).handle
        one.call("gem_info", handle=handle, info=info, value=1 << 32 if info == 4 else 0)

    found = _refusals(ask)
    check(found == list(RELEASES[:refusing]), str(found))


@pytest.mark.parametrize(("flag", "refusing"), [(4, 0), (8, 2), (16, 6)])
def test_flags_of_listed_objects_by_release(flag: int, refusing: int) -> None:
    def submit(one: MsmClient) -> None:
        handle = one.call("gem_new", size=4096, flags=WC).handle
        listed = np.frombuffer(struct.pack("<IIQ", 1 | flag, handle, 0), np.uint8)
        one.call("gem_submit", flags=PIPE, nr_bos=1, bos=listed.ctypes.data, queueid=one.queue)

    found = _refusals(submit)
    check(found == list(RELEASES[:refusing]), str(found))


@pytest.mark.parametrize(("release", "refused"), [("5.15", True), ("6.1", False)])
def test_fences_that_the_process_numbers(release: str, refused: bool) -> None:
    with msm_client(options=on(release)) as one:
        stream = one.alloc(4096)
        numbered = {"flags": PIPE | 1 << 25, "fence": 7}
        submit = partial(one.submit, type7(NOP), [], stream, **numbered)
        check(_refused(submit) == refused)


@pytest.mark.parametrize(("release", "nbytes"), [("6.1", 4096), ("6.12", 4096)])
def test_sizes_lose_their_high_bits(release: str, nbytes: int) -> None:
    with msm_client(options=on(release)) as one:
        handle = one.call("gem_new", size=(1 << 32) + nbytes, flags=WC).handle
        _fails(errno.EINVAL, lambda: one.call("gem_new", size=1 << 32, flags=WC))
        offset = one.call("gem_info", handle=handle, info=0).value
        _fails(errno.EINVAL, lambda: one.world.mmap(one.fd, 2 * nbytes, offset))
        one.world.mmap(one.fd, nbytes, offset).close()


def test_a_newer_kernel_keeps_them() -> None:
    with msm_client(options=on("7.3")) as one:
        _fails(errno.ENOMEM, lambda: one.call("gem_new", size=(1 << 32) + 4096, flags=WC))


def test_the_size_of_commands_has_20_bits() -> None:
    """CP_INDIRECT_BUFFER takes words modulo 2**20, so 4 MiB of commands are none."""
    with msm_client(options=AdrenoOptions(iface="MSM")) as one:
        stream, block = one.alloc(1 << 22), one.alloc(4096)
        words = type7(MEM_WRITE, block.va & 0xFFFFFFFF, block.va >> 32, 7)
        stream.words[: len(words)] = words
        listed = b"".join(struct.pack("<IIQ", 3, bo.id, 0) for bo in (stream, block))
        bos = np.frombuffer(listed, np.uint8)
        for nbytes, expected in ((1 << 22, 0), (4 * len(words), 7)):
            command = np.frombuffer(struct.pack("<IIIIIIQ", 1, 0, 0, nbytes, 0, 0, 0), np.uint8)
            given = {"nr_bos": 2, "bos": bos.ctypes.data, "nr_cmds": 1,
                     "cmds": command.ctypes.data, "queueid": one.queue}  # fmt: skip
            one.wait(one.call("gem_submit", flags=PIPE, **given).fence)
            check(int(block.words[0]) == expected)


@pytest.mark.parametrize("release", ["6.17", "7.3"])
def test_any_parameter_makes_the_address_space(release: str) -> None:
    with msm_client(options=on(release)) as one:
        one.call("set_param", pipe=PIPE, param=0x16, value=1)
        one.call("get_param", pipe=PIPE, param=3)
        _fails(errno.EBUSY, lambda: one.call("set_param", pipe=PIPE, param=0x16, value=1))
        check(one.call("submitqueue_new", flags=2).id != 0)


@pytest.mark.parametrize(("release", "others"), [("5.15", 1), ("6.1", 0)])
def test_whose_hangs_are_counted(release: str, others: int) -> None:
    with msm_client(options=on(release), clean=False) as one:
        other = MsmClient(one.world)
        stream = one.alloc(4096)
        one.wait(one.submit([0], [], stream).fence)
        counts = [each.call("get_param", pipe=PIPE, param=9).value for each in (one, other)]
        check(counts == [1, others], str(counts))
