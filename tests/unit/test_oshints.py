"""Hints by what was asked, where, and errno: every row of the table, and what is in none.

The causes are those of the kernel's source and manual pages, which the table names.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilers.cache import Cache
from drivers.base import errors
from drivers.base.oserrors import translate
from drivers.base.oshints import EXECUTE, ROWS, row_of
from drivers.world import native
from drivers.world.linux import LinuxWorld
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
KFD, CONTROL, RENDER = "open /dev/kfd", "open /dev/nvidiactl", "open /dev/dri/renderD128"
CACHE = "/home/u/.cache/unbound/kernels/a.bin"
CASES = [
    # memory that may not be executable: systemd, SELinux, PR_SET_MDWE
    (f"{EXECUTE}: mprotect 0x1000+0x1000", "EACCES", errors.Denied, "MemoryDenyWriteExecute"),
    (f"{EXECUTE}: mprotect 0x1000+0x1000", "EPERM", errors.Denied, "execmem"),
    (f"{EXECUTE}: a callback of C", "EACCES", errors.Denied, "execmem"),
    (f"{EXECUTE}: mprotect 0x1000+0x1000", "ENOMEM", errors.OutOfMemory, "max_map_count"),
    ("mmap 4096 bytes of descriptor -1", "EAGAIN", errors.Busy, "ulimit -l"),
    ("mmap 4096 bytes of descriptor -1", "ENOMEM", errors.OutOfMemory, "ulimit -v"),
    ("mmap 4096 bytes of descriptor 7", "EACCES", errors.Denied, "for reading and writing"),
    ("mmap 4096 bytes of descriptor 7", "EPERM", errors.Denied, "sealed"),
    ("mmap 4096 bytes of descriptor 7", "ENODEV", errors.DeviceGone, "cannot be mapped"),
    ("ioctl 0xc0184b0f on descriptor 7", "ENOENT", errors.NotFound, "no such object"),
    ("ioctl 0xc0184b0f on descriptor 7", "EACCES", errors.Denied, "needs more rights"),
    # a node whose module is absent is not unplugged
    (CONTROL, "ENXIO", errors.DeviceGone, "module is not loaded"),
    (KFD, "ENXIO", errors.DeviceGone, "module is not loaded"),
    (RENDER, "ENODEV", errors.DeviceGone, "module is not loaded"),
    ("open /dev/kgsl-3d0", "ENOENT", errors.NotFound, "a container has to be given it"),
    ("stat /dev/kfd", "ENOENT", errors.NotFound, "its kernel module makes the node"),
    (KFD, "EPERM", errors.Denied, "--device="),
    (KFD, "EACCES", errors.Denied, "group that owns the node"),
    (KFD, "EACCES", errors.Denied, "nodev"),
    # no /proc, no /sys
    ("read /proc/cpuinfo", "ENOENT", errors.NotFound, "/proc is not mounted"),
    ("list /proc", "ENOENT", errors.NotFound, "mount -t proc"),
    ("read /proc/self/status", "ENOTDIR", errors.NotFound, "/proc is not mounted"),
    ("read /proc/driver/nvidia/version", "ENOENT", errors.NotFound, "module that shows it"),
    ("read /sys/class/kfd/kfd/topology/system_properties", "ENOENT", errors.NotFound,
     "/sys is not mounted"),
    ("list /sys/bus/pci/devices", "ENOENT", errors.NotFound, "/sys is not mounted"),
    ("write /sys/bus/pci/drivers/vfio-pci/bind", "EACCES", errors.Denied, "only root"),
    ("write /sys/bus/pci/drivers/vfio-pci/bind", "EINVAL", errors.Unsupported, "this value"),
    # disks
    (f"write {CACHE}", "ENOSPC", errors.DeviceError, "full"),
    ("write /run/unbound/a.new", "EDQUOT", errors.DeviceError, "share of it"),
    ("make /dev/shm/unbound", "ENOSPC", errors.DeviceError, "full"),
    (f"open {CACHE}", "EROFS", errors.Denied, "read-only"),
    ("make /run/unbound", "EROFS", errors.Denied, "read-only"),
    (f"write {CACHE}", "EFBIG", errors.DeviceError, "ulimit -f"),
    (f"read {CACHE}", "EACCES", errors.Denied, "ls -ld"),
    ("open /run", "EPERM", errors.Denied, "ls -ld"),
    ("read /sys/kernel/debug/x", "EACCES", errors.Denied, "ls -ld"),
    ("read /lib/firmware/amdgpu/x.bin", "ENOENT", errors.NotFound, "check the path"),
    (f"open {CACHE}", "ENOTDIR", errors.NotFound, "check the path"),
    (f"open {CACHE}", "ELOOP", errors.DeviceError, "links"),
    (f"read {CACHE}", "EISDIR", errors.DeviceError, "check the path"),
    (f"read {CACHE}", "ENAMETOOLONG", errors.DeviceError, "check the path"),
    (f"read {CACHE}", "EIO", errors.DeviceError, "the disk"),
    ("write /proc/self/mem", "EIO", errors.DeviceError, "on a disk"),
    ("write /proc/self/mem", "EINVAL", errors.DeviceError, "on a disk"),
    # what no row is for keeps the hint of its errno
    ("read /sys/class/drm/x", "EIO", errors.DeviceGone, "then open the device again"),
    ("write /sys/bus/pci/devices/x/resource0_resize", "ENOSPC", errors.OutOfMemory, "free buffers"),
    ("ioctl 0xc0184b0f on descriptor 7", "ENOSPC", errors.OutOfMemory, "free buffers"),
    ("ioctl 0xc0184b0f on descriptor 7", "ENODEV", errors.DeviceGone, "unplugged"),
    ("poll descriptor 7", "ENXIO", errors.DeviceGone, "unplugged"),
    ("mprotect 0x1000+0x1000", "EACCES", errors.Denied, "more rights"),
    (KFD, "EBUSY", errors.Busy, "close the program"),
    ("", "ENOENT", errors.NotFound, "doctor"),
]  # fmt: skip


def number_of(name: str) -> int:
    return int(getattr(errno, name))


@pytest.mark.parametrize(("what", "name", "kind", "says"), CASES)
def test_the_hint_is_of_what_was_asked(
    what: str, name: str, kind: type[errors.DeviceError], says: str
) -> None:
    error = translate(OSError(number_of(name), ""), what, 4096)
    check(type(error) is kind and says in error.hint, f"{error!r}")
    check(str(error).endswith(error.hint) and name in str(error), str(error))


def test_every_row_has_a_case_and_every_errno_of_it() -> None:
    met = {(row, number_of(name)) for what, name, _, _ in CASES
           if (row := row_of(what, number_of(name))) is not None}  # fmt: skip
    rows = {row for row, _ in met}
    check(rows == set(ROWS), f"without a case: {[row.hint for row in ROWS if row not in rows]}")
    check(not any("group" in row.hint for row in ROWS if not row.place), "memory has no group")


def test_no_hint_leads_to_a_group_for_what_is_no_node() -> None:
    for what in {what for what, *_ in CASES if not what.startswith("open /dev")}:
        for number in errno.errorcode:
            hint = translate(OSError(number, ""), what).hint
            check("render" not in hint and hint, f"{what}: {hint}")


class NoClosures:
    """cffi's backend on a machine where libffi gets no executable memory."""

    def callback(self, *args: object, **kwargs: object) -> object:
        raise MemoryError("Cannot allocate write+execute memory for ffi.callback().")


def test_a_callback_without_executable_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_ffi", NoClosures)
    with pytest.raises(errors.Denied, match="execmem"):
        native.callback("void(*)(int)", print, print)


MDWE = """
import _cffi_backend, sys
ffi = _cffi_backend.FFI()
prctl = _cffi_backend.load_library(None, 0).load_function(
    ffi.typeof("int(*)(int, uint64_t, uint64_t, uint64_t, uint64_t)"), "prctl")
if prctl(65, 1, 0, 0, 0):  # src: include/uapi/linux/prctl.h, PR_SET_MDWE, Linux 6.3
    sys.exit(77)
from drivers.base.errors import Denied
from drivers.world.linux import LinuxWorld
region = LinuxWorld().mmap(-1, 4096)
try:
    LinuxWorld().protect(region, write=False, execute=True)
except Denied as error:
    print(error)
"""


def test_a_process_that_the_kernel_denies_executable_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MDWE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this kernel has no PR_SET_MDWE")
    check("MemoryDenyWriteExecute" in done.stdout and "render" not in done.stdout, done.stderr)


def test_a_node_without_its_module(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes device nodes")
    node = tmp_path / "nvidiactl"
    try:
        os.mknod(node, 0o020666, os.makedev(195, 255))  # src: nv-chardev-numbers.h
    except PermissionError:
        pytest.skip("no device nodes may be made here")
    with pytest.raises(errors.DeviceError) as caught:
        LinuxWorld().open(str(node), os.O_RDWR)
    number = caught.value.__cause__
    if not isinstance(number, OSError) or number.errno != errno.ENXIO:
        pytest.skip("a driver answers, or the file system has no nodes")
    hint = translate(number, "open /dev/nvidiactl").hint
    check("module is not loaded" in hint and "unplugged" not in hint, hint)


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.ENOSPC, "full"), (errno.EDQUOT, "full"), (errno.EROFS, "read-only"),
     (errno.EMFILE, "ulimit -n"), (errno.EFBIG, "ulimit -f"), (errno.EACCES, "ls -ld")],
)  # fmt: skip
def test_the_warning_about_the_cache_has_the_hint_of_its_reason(
    number: int, says: str, tmp_path: Path
) -> None:
    cache = Cache(str(tmp_path))
    with pytest.warns(RuntimeWarning, match=f"{says}.*; or set UNBOUND_CACHE") as caught:
        cache._give_up(OSError(number, os.strerror(number)))
    check(says == "ls -ld" or "only you" not in str(caught[0].message), "no matter of rights")
