"""The CPU's memory limit is the smallest of the machine's and every control group's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.base.errors import Denied, DeviceError, MalformedInput, OutOfMemory
from drivers.cpu.features import read_processor
from tests.cpu_harness import open_device
from tests.unit.test_cpu_features import Proc

MIB = 1 << 20
TOTAL = 16 * MIB
V2 = "35 24 0:30 {root} {place} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "36 24 0:31 {root} {place} rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
OTHER = "37 24 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\nshort line\n"
PLACE = "/sys/fs/cgroup"
UNLIMITED = 9223372036854771712  # what version 1 says for none: LONG_MAX in whole pages


def limit(group: str, mounts: str, **files: object) -> int:
    """The device's limit on a made-up machine; `files` by path below PLACE, "/" as "__"."""
    world = Proc()
    world.files["/proc/self/cgroup"] = group.encode()
    world.files["/proc/self/mountinfo"] = mounts.encode()
    for name, value in files.items():
        path = name.replace("__", "/").replace("memory_", "memory.")
        world.files[f"{PLACE}/{path}"] = f"{value}\n".encode()
    return read_processor(world).limits.memory_bytes


AT_ROOT = V2.format(root="/", place=PLACE)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, TOTAL),
        ({"a__b__memory_max": "max", "a__memory_max": "max"}, TOTAL),
        ({"a__b__memory_max": 4 * MIB, "a__memory_max": "max"}, 4 * MIB),
        ({"a__b__memory_max": "max", "a__memory_max": 3 * MIB}, 3 * MIB),
        ({"a__b__memory_max": 5 * MIB, "a__memory_max": 3 * MIB, "memory_max": 2 * MIB}, 2 * MIB),
        ({"a__b__memory_max": 1 << 50}, TOTAL),
        ({"a__b__c__memory_max": MIB, "z__memory_max": MIB}, TOTAL),
    ],
)
def test_the_smallest_limit_of_every_ancestor(files: dict[str, object], expected: int) -> None:
    np.testing.assert_equal(limit("0::/a/b\n", OTHER + AT_ROOT, **files), expected)


@pytest.mark.parametrize(
    ("group", "mounts", "files", "expected"),
    [
        ("0::/\n", AT_ROOT, {"memory_max": MIB}, MIB),  # in a namespace of its own
        ("0::/../x\n", AT_ROOT, {"memory_max": MIB}, MIB),  # ... moved out of it
        ("0::/box/a\n", V2.format(root="/box", place=PLACE), {"a__memory_max": MIB}, MIB),
        ("0::/boxes/a\n", V2.format(root="/box", place=PLACE), {"es__a__memory_max": MIB}, TOTAL),
        ("5:cpu:/\n4:pids,memory:/a\n0::/x\n", V1.format(root="/", place=PLACE),
         {"a__memory_limit_in_bytes": 2 * MIB, "memory_limit_in_bytes": UNLIMITED}, 2 * MIB),
        ("5:cpu:/a\n", V1.format(root="/", place=PLACE), {"a__memory_limit_in_bytes": MIB}, TOTAL),
        ("4:memory:/a\n", V1.format(root="/", place=PLACE), {"a__memory_max": MIB}, TOTAL),
        ("4:memory:/a\n0::/\n", V1.format(root="/", place=PLACE + r"/mem\040ory") + AT_ROOT,
         {"mem ory__a__memory_limit_in_bytes": 3 * MIB, "memory_max": "max"}, 3 * MIB),
    ],
)  # fmt: skip
def test_both_versions_wherever_they_are_mounted(
    group: str, mounts: str, files: dict[str, object], expected: int
) -> None:
    np.testing.assert_equal(limit(group, mounts, **files), expected)


def test_a_machine_without_control_groups() -> None:
    np.testing.assert_equal(read_processor(Proc()).limits.memory_bytes, TOTAL)


def test_a_sandbox_that_hides_its_groups() -> None:
    class Hidden(Proc):
        def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
            if path == "/proc/self/mountinfo":
                raise Denied(f"{path} may not be read")
            return super().read(path, limit_bytes)

    world = Hidden()
    world.files["/proc/self/cgroup"] = b"0::/\n"
    np.testing.assert_equal(read_processor(world).limits.memory_bytes, TOTAL)


def test_a_limit_that_is_no_number() -> None:
    with pytest.raises(MalformedInput, match=r"memory\.max is 'lots'"):
        limit("0::/\n", AT_ROOT, memory_max="lots")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=9))
def test_only_our_errors_escape(group: str, mounts: str, value: str) -> None:
    with suppress(DeviceError):
        limit(f"0::/{group}", mounts + AT_ROOT, memory_max=value)


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A device in a group of 8 MiB says OutOfMemory where the kernel would kill the process."""
    monkeypatch.setattr("drivers.cpu.features.memory_limit", lambda world: 8 * MIB)
    with open_device() as device:
        device.alloc(4 * MIB).free()
        with pytest.raises(OutOfMemory, match="8,388,608"):
            device.alloc(9 * MIB)
