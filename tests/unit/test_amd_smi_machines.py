"""`python -m drivers.amd.smi` on made-up machines: sleeping GPUs, memory, processes, --watch."""

from __future__ import annotations

import errno
import json
import os

import pytest

from drivers.amd import smi
from drivers.amd.pci.opening import chosen
from drivers.amd.probe import probe
from drivers.amd.smi import report
from drivers.amd.tools.bare import pick
from drivers.base.errors import MalformedInput
from drivers.base.oserrors import translate
from drivers.doctor import run
from drivers.doctor.checks import CHECKS
from drivers.machine.smi import watched
from tests.amd_trees import GFX1100, GFX1151, machine, second
from tests.fake_machine import X86, FakeMachine, pci
from tests.support import check
from tests.unit.test_amd_smi import V1_3, table

A, B = "0000:03:00.0", "0000:0b:00.0"
APU = "0000:c5:00.0"
_GIB = 1 << 30


def card(address: str, ids: str = "1002:744c") -> dict[str, bytes | str]:
    """A GPU under amdgpu, as sysfs shows it."""
    folder = f"/sys/bus/pci/devices/{address}"
    return {
        **pci(address, ids, driver="amdgpu"),
        f"{folder}/mem_info_vram_total": b"25753026560\n",
        f"{folder}/gpu_busy_percent": b"3\n",
        f"{folder}/gpu_metrics": V1_3,
    }


class Refusing(FakeMachine):
    """The first GPU's sensors answer an errno, in what the kernel was seen to answer."""

    number = 0

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        if A in path and path.endswith(("gpu_metrics", "gpu_busy_percent")):
            cause = OSError(self.number, os.strerror(self.number))
            error = translate(cause, f"read {path}")
            error.__cause__ = cause
            raise error
        return super().read(path, limit_bytes)


SLEEPS = {f"/sys/bus/pci/devices/{A}/power/runtime_status": b"suspended\n"}


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [(errno.EBUSY, SLEEPS, "runtime-suspended"), (errno.EPERM, SLEEPS, "runtime-suspended"),
     (errno.ENODATA, SLEEPS, "runtime-suspended"), (errno.EIO, SLEEPS, "dmesg"),
     (errno.ENODEV, {}, "dmesg"), (errno.EBUSY, {}, "dmesg"), (errno.EINVAL, {}, "dmesg")],
)  # fmt: skip
def test_a_gpu_whose_sensors_do_not_answer(
    number: int, status: dict[str, bytes], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """glances 3590, MangoHud 717: it says so itself, and the other one is shown."""
    world = Refusing({**card(A), **card(B), **status})
    world.number = number
    check(smi.command([], world) == 0)
    shown = capsys.readouterr().out
    check("2500/1249" in shown and says in shown and "close the program" not in shown, shown)
    check(max(map(len, shown.splitlines())) <= 100, shown)
    first, other = report(world, None).lines
    check(first.readings.memory_bytes == 25753026560, f"{first}")
    check(sum("gpu_metrics" in lack for lack in first.lacks) == 2, f"{first.lacks}")
    check(other.readings.power_w == 77, f"{other}")


@pytest.mark.parametrize(
    ("metrics", "says"),
    [(b"", "gpu_metrics: it is empty"), (bytes(120), "format v0_0 unknown"),
     (V1_3[:50], "structure"), (b"\x10", "outside")],
)  # fmt: skip
def test_a_table_that_is_not_one(metrics: bytes, says: str) -> None:
    files = {**card(A), **card(B), f"/sys/bus/pci/devices/{A}/gpu_metrics": metrics}
    first, other = report(FakeMachine(files), None).lines
    check(any(says in lack or "gpu_metrics" in lack for lack in first.lacks), f"{first.lacks}")
    check(other.readings.gfx_mhz == 2500, f"{other}")


def test_a_function_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    world = FakeMachine({**card(A), **card(B), f"/sys/bus/pci/devices/{A}/vendor": b"x\n"})
    check(smi.command([], world) == 0)
    shown = capsys.readouterr().out
    check(B in shown and f"{A} is passed over" in " ".join(shown.split()), shown)
    smi.command(["--json"], world)
    found = json.loads(capsys.readouterr().out)
    check([one["address"] for one in found] == [B, A] and found[1]["lacks"], f"{found}")


def strix_halo(carveout: int, gtt: int, bank: int) -> dict[str, bytes | str]:
    """A Strix Halo; `bank` is what KFD calls its memory."""
    folder, limit = f"/sys/bus/pci/devices/{APU}", "/sys/module/ttm/parameters/pages_limit"
    sizes: dict[str, bytes | str] = {
        "mem_info_vram_total": b"%d\n" % carveout, "mem_info_gtt_total": b"%d\n" % gtt,
        "mem_info_vram_used": b"%d\n" % (carveout // 2), "mem_info_gtt_used": b"%d\n" % (40 * _GIB),
        "gpu_metrics": table(0, 264, {4: 5150}, major=3),
    }  # fmt: skip
    files = {**X86, **machine(GFX1151, vram_bytes=bank), **pci(APU, "1002:1586", driver="amdgpu")}
    for name, data in sizes.items():
        files[f"{folder}/{name}"] = files[f"/sys/class/drm/renderD129/device/{name}"] = data
    files["/proc/meminfo"] = b"MemTotal:       134217728 kB\nHugePages_Total:       0\n"
    return files | {limit: b"%d\n" % (gtt >> 12)}


@pytest.mark.parametrize(
    ("carveout", "gtt", "bank", "gib"),
    [(_GIB // 2, 96 * _GIB, 96 * _GIB, 96.0), (96 * _GIB, 14 * _GIB, 96 * _GIB, 110.0)],
)
def test_memory_of_a_processors_gpu(carveout: int, gtt: int, bank: int, gib: float) -> None:
    """amdsmi 110: one number in smi, probe and doctor.

    src: Linux 6.12 amdgpu_amdkfd.c amdgpu_amdkfd_get_local_mem_info(): of an APU the bank is TTM's
    limit, out of which VRAM is taken; kernels with apu_prefer_gtt keep a carve-out that is larger.
    """
    files = strix_halo(carveout, gtt, bank)
    (line,) = report(FakeMachine(files), None).lines
    check(line.readings.memory_bytes == gib * _GIB, f"{line.readings}")
    check(line.readings.memory_used_bytes == carveout // 2 + 40 * _GIB, f"{line.readings}")
    text, _ = probe(["--json"], FakeMachine(files), {})
    check(json.loads(text)["gpus"][0]["memory_bytes"] == gib * _GIB, text)
    rows = [row.text for row in run(CHECKS, FakeMachine(files), {"HOME": "/etc"})]
    check(any(f"gfx1151 at {APU} may use {gib:.1f} GiB" in row for row in rows), f"{rows}")


def test_memory_of_a_processors_gpu_without_kfd() -> None:
    """Its format of gpu_metrics says that it is one: what firmware keeps, and GTT."""
    files = {path: data for path, data in strix_halo(_GIB, 96 * _GIB, 0).items()
             if "/kfd/" not in path}  # fmt: skip
    (line,) = report(FakeMachine(files), None).lines
    check(line.readings.memory_bytes == 97 * _GIB, f"{line.readings}")
    (line,) = report(FakeMachine(card(A)), None).lines
    check(line.readings.memory_bytes == 25753026560, "a card has its own alone")


def process(pid: int, name: str, fdinfo: str = "") -> dict[str, bytes | str]:
    """A process with a render node open; fdinfo as drm-usage-stats.rst has it."""
    return {
        f"/proc/{pid}/comm": f"{name}\n".encode(),
        f"/proc/{pid}/fd/5": "/dev/dri/renderD128",
        f"/proc/{pid}/fdinfo/5": fdinfo.encode(),
    }


class Others(FakeMachine):
    """A machine where the files of process 1 belong to root."""

    def listdir(self, path: str) -> list[str]:
        if path == "/proc/1/fd":
            raise self._fail(errno.EACCES, "list")
        return super().listdir(path)


def test_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """KFD's list is of all users; DRM's statistics are of this user's processes."""
    node = {**machine(GFX1100, second(GFX1100)), **card(A), **card("0000:0b:00.0")}
    kfd = "/sys/class/kfd/kfd/proc"
    stats = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-pdev:\t0000:03:00.0\n"
    stats += "drm-memory-vram:\t2048 KiB\n"
    twice = {"/proc/70/fd/6": "/dev/dri/renderD128", "/proc/70/fdinfo/6": stats.encode()}
    world = Others({
        **node, **process(70, "viewer", stats), **twice, **process(80, "trainer", stats),
        "/proc/1/comm": b"init\n", "/proc/1/fd/0": "/dev/null", "/proc/self/comm": b"me\n",
        f"{kfd}/80/vram_4369": b"1073741824\n", f"{kfd}/80/vram_9": b"5\n",
        f"{kfd}/90/vram_4369": b"0\n", f"{kfd}/91/vram_4369": b"x\n", f"{kfd}/80/pasid": b"1\n",
    })  # fmt: skip
    first = report(world, None).lines[0]
    seen = [(one.pid, one.name, one.memory_bytes) for one in first.processes]
    check(seen == [(70, "viewer", 2 << 20), (80, "trainer", 1 << 30)], f"{seen}")
    smi.command([], world)
    shown = capsys.readouterr().out
    check("trainer" in shown and "1024.0" in shown, shown)
    check("1 processes of other users are not visible here" in shown, shown)


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    check(smi.command([], FakeMachine(X86)) == 1, "exit status")
    check("no AMD GPU is on PCI" in capsys.readouterr().out)


class Patient(FakeMachine):
    """Sleeping is allowed, and the machine changes meanwhile."""

    slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.files[f"/sys/bus/pci/devices/{A}/gpu_busy_percent"] = b"97\n"


def test_watching() -> None:
    world = Patient(card(A))
    looks = list(watched(world, lambda: smi.as_text(report(world, None)), 2.5, looks=3))
    check(len(looks) == 3 and world.slept == 5.0, f"{looks}")
    check(" 97 " in looks[2] and " 97 " not in looks[0], f"{looks}")
    for wrong in ("0", "x", "1e9", "-1"):
        with pytest.raises(SystemExit):
            smi.command(["--watch", wrong], world)


def test_a_number_never_leads_to_another_gpu() -> None:
    """Over PCI a number claims: a function in front that cannot be read may be a GPU."""
    files = {**card(A), **card(B)}
    check(chosen(FakeMachine(files), 0).address == A)
    broken = files | {f"/sys/bus/pci/devices/{A}/vendor": b"x\n"}
    with pytest.raises(MalformedInput, match="AMD:0 on PCI"):
        chosen(FakeMachine(broken), 0)
    with pytest.raises(MalformedInput, match=r"--address names one"):
        pick(FakeMachine(broken), None)
    behind = files | {f"/sys/bus/pci/devices/{B}/vendor": b"x\n"}
    check(chosen(FakeMachine(behind), 0).address == A, "one behind it changes no number")
