"""`python -m drivers.settings`: every environment variable of the stack and the value it has now.

`drivers.choice` reads them; this module describes what it reads. A test compares the two, and
docs/environment.md is made from this table by `python -m tests.settings`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from drivers.choice import CL_MEMORY, DMA, KINDS, MAX_DEVICES, MAX_LIMIT_S, MAX_THREADS
from drivers.kinds import BY_NAME
from drivers.machine.output import print_lines
from unbound import terminal

WIDTH_CHARS: Final = 100
"""Of lines, where neither COLUMNS nor a terminal says another width."""
LEAST_CHARS: Final = 40
_INDENT: Final = " " * 6
_ABOUT: Final = "Every environment variable of the stack, and the value that it has now."


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable."""

    name: str
    values: str
    text: str
    """What it changes, and what happens where it is not set."""


@dataclass(frozen=True, slots=True)
class Group:
    """Settings of one purpose."""

    title: str
    settings: tuple[Setting, ...]


_ONE: Final = "1 or 0"
_PATH: Final = "an absolute path"
_FOLDER: Final = "an absolute path; ~/ stands for HOME"


def _kind(name: str, text: str) -> Setting:
    return Setting(name, _ONE, text)


SETTINGS: Final = (
    Group(
        "Which device",
        (
            Setting(
                "DEV",
                f"{', '.join(KINDS)}, or one of them with its number: AMD:1 (0 to "
                f"{MAX_DEVICES - 1})",
                "Chooses the default device. Where no variable chooses one, it is the best device "
                "that a kernel driver offers; `python -m drivers.probe` names it.",
            ),
            _kind("CPU", "Chooses the processor."),
            _kind("AMD", "Chooses the first AMD GPU."),
            _kind("CL", "Chooses an OpenCL device: the first, or the one that CL_DEVICE names."),
            _kind("METAL", "Chooses the first GPU of a Mac. Never run on Apple hardware."),
            _kind("WEBGPU", "Chooses a WebGPU adapter: the first, or the one of WEBGPU_DEVICE."),
            _kind("CUDA", "Chooses an NVIDIA GPU through libcuda. Never run on NVIDIA's library."),
            _kind("NV", "Chooses an NVIDIA GPU, by our own driver. Never run on silicon."),
            _kind("QCOM", "Chooses an Adreno. Never run on silicon."),
            _kind("GPU", "The older spelling of CL."),
            Setting(
                "CL_DEVICE",
                "a number, or a part of a device's or a platform's name",
                "Which OpenCL devices there are to choose from; `python -m drivers.probe` lists "
                "all. Not set: all of all platforms.",
            ),
            Setting(
                "WEBGPU_DEVICE",
                "a number, or a part of an adapter's, a backend's or a library's name",
                "Which WebGPU adapters there are to choose from; `python -m drivers.probe` lists "
                "all. Not set: all of all libraries.",
            ),
            Setting(
                "WEBGPU_LIBRARY",
                _PATH,
                "The only WebGPU library to use. Not set: the system's, and those of the wheels "
                "wgpu, wgpudawn and dawn-python.",
            ),
            Setting(
                "AMD_IFACE",
                " or ".join(BY_NAME["AMD"].ifaces),
                "The interface to an AMD GPU: KFD is its kernel driver and the default, PCI takes "
                "an unbound GPU, USB one in an enclosure. Without a device it also chooses AMD.",
            ),
            Setting(
                "NV_IFACE",
                " or ".join(BY_NAME["NV"].ifaces),
                "The interface to an NVIDIA GPU: NVK is its kernel driver and the default. PCI is "
                "not written yet.",
            ),
            Setting(
                "QCOM_IFACE",
                " or ".join(BY_NAME["QCOM"].ifaces),
                "How an Adreno is reached: Qualcomm's kernel driver, or mainline Linux's. Not set: "
                "the first that is there.",
            ),
            Setting(
                "CUDA_VISIBLE_DEVICES",
                "numbers and UUIDs with commas between them",
                "Which NVIDIA GPUs this process may use: numbers among those that it may open, by "
                "PCI address. Set and empty: none. NV reads it as libcuda does.",
            ),
            Setting(
                "NVIDIA_VISIBLE_DEVICES",
                "numbers and UUIDs with commas between them",
                "Which of a host's NVIDIA GPUs a container is to have. Anything else hides none.",
            ),
            Setting(
                "ROCR_VISIBLE_DEVICES",
                "numbers and UUIDs with commas between them",
                "Which of amdgpu's GPUs this process may use, as ROCr reads it. Set and "
                "empty: none. Over KFD alone.",
            ),
            Setting(
                "HIP_VISIBLE_DEVICES",
                "numbers and UUIDs with commas between them",
                "A second such list, as HIP reads it: it counts what ROCR_VISIBLE_DEVICES leaves.",
            ),
        ),
    ),
    Group(
        "Which compiler",
        (
            Setting("LLVM", _ONE, "Chooses the CPU; llvmlite compiles its kernels, as by default."),
            Setting("CPU_LLVM", _ONE, "The compiler of LLVM=1, without choosing the CPU."),
            Setting("CLANG", _ONE, "Chooses the CPU; clang compiles its kernels, from C."),
            Setting("AMD_LLVM", _ONE, "llvmlite compiles AMD's kernels, as by default."),
            Setting("AMD_HIP", _ONE, "COMGR compiles AMD's kernels, from HIP."),
            Setting(
                "NV_PTX",
                _ONE,
                "LLVM and nvJitLink compile NVIDIA's kernels, by way of PTX. By default nvrtc "
                "does, from CUDA C.",
            ),
            Setting(
                "CUDA_PTX", _ONE, "LLVM and nvJitLink compile kernels of CUDA=1, by way of PTX."
            ),
            Setting("QCOM_IR3", _ONE, "This stack's own code generator compiles for Adreno."),
            Setting(
                "QCOM_CL",
                _ONE,
                "Qualcomm's OpenCL library compiles for Adrenos of generation 6. Tested on "
                "synthetic containers, never on a program of that compiler.",
            ),
        ),
    ),
    Group(
        "How a device works",
        (
            Setting(
                "CPU_THREADS",
                f"1 to {MAX_THREADS}",
                "Threads of the CPU device. Not set: one for each core.",
            ),
            Setting(
                "AMD_AQL",
                _ONE,
                "Compute queues of AMD GPUs read AQL packets (1) or PM4 (0). Not set: AQL where "
                "several XCCs share a queue, PM4 elsewhere.",
            ),
            Setting(
                "AMD_HANG_S",
                f"seconds up to {MAX_LIMIT_S}, with or without decimals; 0 for no limit",
                "After how long without progress a queue of an AMD GPU counts as hung. Not set: "
                "60.",
            ),
            Setting(
                "NV_HANG_S",
                f"seconds up to {MAX_LIMIT_S}, with or without decimals; 0 for no limit",
                "After how long without progress a channel of an NVIDIA GPU counts as hung. Not "
                "set: 60.",
            ),
            Setting(
                "NV_TF32",
                _ONE,
                "Products of float32 matrices may be of tf32 on NVIDIA's matrix units: factors "
                "are rounded to 10 bits of fraction. Not set: all 23 bits count.",
            ),
            Setting("CUDA_TF32", _ONE, "NV_TF32 for products through CUDA."),
            Setting(
                "QCOM_HANG_S",
                f"seconds up to {MAX_LIMIT_S}, with or without decimals; 0 for no limit",
                "After how long without progress a queue of an Adreno counts as hung. Not set: 60.",
            ),
            Setting(
                "QCOM_FLUSH16",
                _ONE,
                "Whether an Adreno computes float16 at its full rate, in half registers, where "
                "subnormal numbers become 0. Not set: 0, they are kept.",
            ),
            Setting(
                "QCOM_IMAGES",
                _ONE,
                "Whether an Adreno's kernels read operands through its texture units where they "
                "can. Not set: 0.",
            ),
            Setting(
                "CL_MEMORY",
                " or ".join(CL_MEMORY),
                "Memory of OpenCL devices: shared virtual memory of fine or coarse grain, or "
                "cl_mem objects. Not set: the first of these that the device has.",
            ),
            Setting(
                "CL_LANES",
                _ONE,
                "An OpenCL device that is a processor gets kernels with workgroups of lanes, as "
                "a GPU does. Not set: each work item takes a range of the work.",
            ),
            Setting(
                "QCOM_VM_BIND",
                _ONE,
                "An Adreno over msm uses VM_BIND (Linux 6.17): submissions list no objects, and "
                "after a GPU fault the device is gone. Not set: it does not.",
            ),
            Setting(
                "UNBOUND_DMA",
                " or ".join(name.lower() for name in DMA),
                "What a GPU over PCI may reach of the host's memory. Not set: iommu if the machine "
                "has one, otherwise vram: it reaches no host memory. physical: it reaches all of "
                "it, with no protection.",
            ),
            Setting("AMD_DMA", "as UNBOUND_DMA", "The older spelling of UNBOUND_DMA."),
            Setting(
                "UNBOUND_REGISTER_TRACE",
                _PATH,
                "A file to which every register access of a GPU over PCI is written, by name.",
            ),
            Setting("AMD_TRACE", _PATH, "The older spelling of UNBOUND_REGISTER_TRACE."),
        ),
    ),
    Group(
        "Files",
        (
            Setting(
                "UNBOUND_CACHE",
                _FOLDER,
                "Where compiled kernels are kept. Not set: unbound in XDG_CACHE_HOME.",
            ),
            Setting(
                "UNBOUND_FIRMWARE",
                _FOLDER,
                "A second place for firmware files, after /lib/firmware.",
            ),
            Setting(
                "UNBOUND_FIRMWARE_FILES",
                "absolute paths with colons between them",
                "Firmware files that are used although the manifest does not know them.",
            ),
            Setting(
                "UNBOUND_FIRMWARE_MANIFEST",
                _PATH,
                "A manifest that says which firmware files are known, in place of our own.",
            ),
            Setting(
                "UNBOUND_TRACE",
                "a path",
                "A file to which kernels and copies of every device are written with their times, "
                "as trace events for https://ui.perfetto.dev: docs/observing.md. A second process "
                "writes beside it. Not set: nothing is recorded.",
            ),
            Setting(
                "XDG_CACHE_HOME", _PATH, "Not set: .cache in HOME. A relative path is ignored."
            ),
            Setting(
                "XDG_RUNTIME_DIR",
                _PATH,
                "A place of locks and records of claimed GPUs: docs/pci.md.",
            ),
            Setting("XDG_STATE_HOME", _PATH, "Another place of locks and records of claimed GPUs."),
            Setting("HOME", _PATH, "The user's home: for the places above."),
            Setting("PATH", "as the system reads it", "Where clang is."),
            Setting(
                "LD_LIBRARY_PATH",
                "as the system reads it",
                "Where the doctor searches libraries that compilers load.",
            ),
        ),
    ),
)


def shown(environ: Mapping[str, str], width_chars: int = WIDTH_CHARS) -> Iterator[str]:
    """Lines of every setting, with its value where it has one."""
    for group in SETTINGS:
        yield f"{group.title}:"
        for setting in group.settings:
            value = f" = {environ[setting.name]}" if setting.name in environ else ""
            yield f"  {setting.name}{value}"
            yield from textwrap.wrap(
                f"{setting.values}. {setting.text}", width_chars,
                initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip


def as_json(environ: Mapping[str, str]) -> str:
    """Every setting with its group and its value; null where it is not set."""
    rows = [
        {**asdict(setting), "group": group.title, "value": environ.get(setting.name)}
        for group in SETTINGS
        for setting in group.settings
    ]
    return json.dumps({"settings": rows}, indent=2)


def main(arguments: Sequence[str]) -> int:
    """The command: print, and the exit status."""
    parser = argparse.ArgumentParser(prog="python -m drivers.settings", description=_ABOUT)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    chosen = parser.parse_args(arguments)
    if chosen.json:
        return print_lines([as_json(os.environ)])
    columns = shutil.get_terminal_size((WIDTH_CHARS, 0)).columns
    return print_lines(shown(os.environ, max(LEAST_CHARS, columns)))


if __name__ == "__main__":
    terminal.run(main)
