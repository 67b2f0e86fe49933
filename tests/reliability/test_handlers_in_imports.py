"""A signal handler computes at each import that an opening or a first compilation begins.

In a process of its own: a module is imported once. The handler gets a right result or a DeviceError
that names the import; what it interrupted is right.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import opencl, webgpu
from tests.amd_toolbox import needs_comgr
from tests.metal import made_up
from tests.nv_cubins import needs_nvjitlink, needs_nvrtc
from tests.support import check, run_limited

CHILD = """
import signal, sys
import numpy as np
import drivers, tensor as xp
from drivers.base.errors import DeviceError
from tensor import engine

opening, compiler, kind, only = sys.argv[1:5]
environ = dict(item.split("=", 1) for item in sys.argv[5:])
begin = lambda: drivers.open(kind, environ=environ)
if opening == "metal":
    from tests.metal.made_up import MadeUpMac
    begin = lambda: drivers.open(kind, world=MadeUpMac(), environ=environ)
elif opening:
    from boards.front import Setup, power_on
    chip, _, iface = opening.partition("/")
    begin = power_on(Setup(chip, iface=iface)).open
X, opened, places, bad, refused, inside = np.arange(64, dtype=np.float32), [], [], [], 0, False

def right(device, factor):
    x = xp.asarray(X, device=device)
    return bool(((x * factor + 1.0).numpy() == X * np.float32(factor) + np.float32(1)).all())

def handler(*_):
    global refused
    for device in ["CPU", *opened]:
        try:
            if not right(device, float(2 * len(places) + 3 + (device != "CPU"))):
                bad.append((places[-1], device, "wrong"))
        except DeviceError as error:
            refused += 1
            if "interrupts the import of" not in str(error):
                bad.append((places[-1], device, str(error)))
        except BaseException as error:
            bad.append((places[-1], device, repr(error)))

class Finder:
    def find_spec(self, name, path=None, target=None):
        global inside
        if not inside and only in ("", name):
            inside = True
            places.append(name)
            signal.raise_signal(signal.SIGALRM)
            inside = False

signal.signal(signal.SIGALRM, handler)
sys.meta_path.insert(0, Finder())
with begin() as device:
    with engine.adopted(kind, device, compiler):
        opened.append(kind)
        done = [right(kind, 1000001.0 + number) for number in range(2)]
        opened.clear()
print(all(done), len(places), refused, bad[:3])
"""
CASES = [
    pytest.param("", "LLVM", "CPU", 12, id="processor"),
    pytest.param("gfx1100", "LLVM", "AMD", 30, id="gfx1100"),
    pytest.param("gfx1100/PCI", "LLVM", "AMD", 30, id="gfx1100 over PCI"),
    pytest.param("gfx1100/USB", "LLVM", "AMD", 30, id="gfx1100 over USB"),
    pytest.param("gfx1030", "HIP", "AMD", 30, id="HIP", marks=needs_comgr),
    pytest.param("ga102", "NVRTC", "NV", 30, id="nvrtc", marks=needs_nvrtc),
    pytest.param("ga102", "PTX", "NV", 30, id="PTX", marks=needs_nvjitlink),
    pytest.param("a630", "IR3", "QCOM", 30, id="a630"),
    pytest.param("metal", "MSL", "METAL", 10, id="Metal"),
    pytest.param("pocl", "OPENCL", "CL", 10, id="OpenCL"),
    pytest.param("wgpu", "WGSL", "WEBGPU", 10, id="WebGPU"),
]


@pytest.mark.parametrize(("opening", "compiler", "kind", "least"), CASES)
def test_a_handler_computes_at_every_import(
    opening: str, compiler: str, kind: str, least: int, tmp_path: Path
) -> None:
    chosen = {"CL": "CL_DEVICE", "WEBGPU": "WEBGPU_DEVICE"}.get(kind)
    more = [""]
    if chosen is not None:
        need = opencl.need if kind == "CL" else webgpu.need
        more, opening = ["", f"{chosen}={need(opening)}"], ""
    if opening == "metal":
        made_up.runtime()  # skips where nothing can build it
    places, refused = interrupted([opening, compiler, kind, *more], tmp_path)
    check(places >= least and refused > 0, f"{places} imports, {refused} refused")


@pytest.mark.parametrize(
    "module", ["llvmlite.binding.dylib", "llvmlite.binding.ffi", "elftools.elf.structs"]
)
def test_a_handler_computes_inside_a_package_that_it_needs(module: str, tmp_path: Path) -> None:
    """Python would give it the half of the package that is there."""
    found = interrupted(["", "LLVM", "CPU", module], tmp_path)
    check(found == (1, 2), f"{found}: places, and refusals of the CPU by two names")


def interrupted(arguments: list[str], folder: Path) -> tuple[int, int]:
    """(places, refusals) of a child; it and its handler were right."""
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    done = run_limited(
        [sys.executable, "-W", "ignore", "-c", CHILD, *arguments],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "UNBOUND_CACHE": str(cache), "DEV": "CPU"},
        capture_output=True, text=True, cpu_s=300, check=False,
    )  # fmt: skip
    check(done.returncode == 0, done.stderr[-2000:])
    result, places, refused, bad = done.stdout.split("\n")[-2].split(maxsplit=3)
    check(result == "True" and bad == "[]", done.stdout[-2000:])
    return int(places), int(refused)
