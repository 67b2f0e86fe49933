"""What tests compare with or run on, fetched once from Debian by `make references`.

The kernel's AMD headers (linux-source), the HSA headers, AMD's firmware, the headers of NVIDIA's
open kernel modules, a Vulkan driver that today's Dawn takes, and Mesa's source: unpacked below the
user's cache, never installed, never committed. Tests find them there by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.debian import Archive, CannotRun, fetched
from unbound import terminal

SUITE = "trixie"
LINUX = "linux-source-6.12"
FOLDERS = (
    "drivers/gpu/drm/amd/include", "drivers/gpu/drm/amd/amdgpu", "drivers/gpu/drm/amd/amdkfd",
    "drivers/gpu/drm/amd/pm", "include/uapi",
)  # fmt: skip
"""Of the kernel source: what facts about AMD GPUs were taken from."""


class Reference(NamedTuple):
    """A folder of the cache, and the package that fills it."""

    name: str
    package: str
    component: str
    part: str
    """Where in the package the wanted folder is."""
    suite: str = SUITE


HEADERS = Reference("linux", LINUX, "main", LINUX)
HSA = Reference("hsa", "libhsa-runtime-dev", "main", "usr/include/hsa")
FIRMWARE = Reference(
    "firmware", "firmware-amd-graphics", "non-free-firmware", "usr/lib/firmware/amdgpu"
)
LAVAPIPE = Reference(
    "lavapipe", "mesa-vulkan-drivers", "main", "usr/lib/x86_64-linux-gnu", "bookworm-backports"
)
"""Mesa 25 for Debian 12, on the LLVM of Debian 12. Dawn of 2026 does not take the one of Debian 12,
Mesa 22.3.6: `shaderSampledImageArrayDynamicIndexing` is not there."""
LAVAPIPE_NAME = "libvulkan_lvp.so"
LAVAPIPE_MANIFEST = "lvp_icd.json"
NVIDIA = Reference("nvidia", "nvidia-open-kernel-source", "contrib", "headers")
"""Headers alone: what the modules tell user space."""


MESA = Reference("mesa", "mesa", "main", "mesa")
"""The whole source tree: tables and test vectors of Adreno's instructions, and what Turnip is built
from."""


def cache_folder() -> Path:
    """Where references are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "unbound-references"


def find(reference: Reference) -> Path | None:
    """Its folder, when it was fetched."""
    path = cache_folder() / reference.name / reference.part
    return path if path.is_dir() else None


def linux_source() -> Path:
    """A kernel source tree: UNBOUND_LINUX_SOURCE, else Debian's; it need not be there."""
    named = os.environ.get("UNBOUND_LINUX_SOURCE")
    return Path(named) if named else find(HEADERS) or Path("/usr/src", LINUX)


def _unpack_linux(archive: Archive, into: Path) -> list[str]:
    packages = archive.fetch_alone([HEADERS.package], into)
    wanted = tuple(f"{LINUX}/{folder}/" for folder in FOLDERS)
    (packed,) = into.glob(f"usr/src/{LINUX}.tar.xz")
    with tarfile.open(packed) as tar:
        for member in tar:
            if member.name.startswith(wanted) and member.isreg():
                target, content = into / member.name, tar.extractfile(member)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read() if content else b"")
    packed.unlink()
    return packages


def _unpack_lavapipe(archive: Archive, into: Path) -> list[str]:
    """The driver alone, with a manifest for Vulkan's loader beside it."""
    packages = archive.fetch_alone([LAVAPIPE.package], into)
    folder = into / LAVAPIPE.part
    for library in folder.iterdir():
        if library.name != LAVAPIPE_NAME:
            library.unlink()
    manifest = {
        "file_format_version": "1.0.0",
        "ICD": {"library_path": f"./{LAVAPIPE_NAME}", "api_version": "1.4.305"},
    }
    (folder / LAVAPIPE_MANIFEST).write_text(json.dumps(manifest))
    return packages


def _unpack_nvidia(archive: Archive, into: Path) -> list[str]:
    packages = archive.fetch_alone([NVIDIA.package], into)
    (packed,) = into.glob("usr/src/nvidia-open-kernel.tar.xz")
    with tarfile.open(packed) as tar:
        for member in tar:
            _, _, name = member.name.partition("nvidia-open-kernel/")
            if name.endswith((".h", "Kbuild")) and member.isreg():
                target, content = into / NVIDIA.part / name, tar.extractfile(member)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read() if content else b"")
    packed.unlink()
    return packages


def _unpack_mesa(archive: Archive, into: Path) -> list[str]:
    packages = archive.fetch_source(MESA.package, into)
    (packed,) = into.glob("mesa_*.orig.tar.xz")
    with tarfile.open(packed) as tar:
        tar.extractall(into, filter="data")
    (tree,) = into.glob("mesa-*/")
    tree.rename(into / MESA.part)
    for path in into.glob("mesa_*"):
        path.unlink()
    return packages


_FETCHES: dict[Reference, Callable[[Archive, Path], list[str]]] = {
    HEADERS: _unpack_linux,
    LAVAPIPE: _unpack_lavapipe,
    NVIDIA: _unpack_nvidia,
    MESA: _unpack_mesa,
}


def _unpack(reference: Reference) -> Callable[[Archive, Path], list[str]]:
    return lambda archive, into: archive.fetch_alone([reference.package], into)


def main() -> int:
    """0: everything is there; 1: what is not, by name."""
    parser = argparse.ArgumentParser(prog="python -m tests.references", description=__doc__)
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    refresh, missing = parser.parse_args().refresh, 0
    for reference in (HEADERS, HSA, FIRMWARE, LAVAPIPE, NVIDIA, MESA):
        fetch = _FETCHES.get(reference) or _unpack(reference)
        folder, suite = cache_folder() / reference.name, reference.suite
        try:
            found = fetched(folder, suite, fetch, component=reference.component, refresh=refresh)
            print("; ".join(found), f"({find(reference)})")
        except CannotRun as error:
            print(f"{reference.package}: not fetched: {error}", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
