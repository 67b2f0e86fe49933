"""The guest's file system: this Python, four packages, kernel modules, this checkout."""

from __future__ import annotations

import io
import lzma
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_file

from elftools.elf.elffile import ELFFile

from boards.amd.pci import firmware_linux, shipped
from boards.amd.pci.firmware_set import FOLDER, MANIFEST, world_files
from tests.debian import CannotRun, command
from tests.vm.cpio import CpioWriter

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).parent / "guest"
PACKAGES = ("numpy", "llvmlite", "cffi", "_cffi_backend", "elftools", "pycparser")
SHIPPED = (
    "unbound", "tensor", "compilers", "queues", "drivers", "boards", "firmware_manifests",
    "examples",
)  # fmt: skip
MODULES = ("uio_pci_generic",)
"""Kernel modules for the guest without amdgpu, with what they depend on."""
SITE, CHECKOUT = "/opt/site", "/unbound"
OWN_MANIFEST = f"{CHECKOUT}/firmware_manifests/amd.toml"
"""AMD's own files: the manifest that users have."""
_STDLIB_LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages",
    "dist-packages", "pydoc_data",
}  # fmt: skip
_CACHE = "__pycache__"


def python_image(path: Path) -> None:
    """This interpreter and what it needs, at the same places as here. Raises: CannotRun."""
    binary = Path(sys.executable).resolve()
    stdlib = Path(sysconfig.get_paths()["stdlib"]).resolve()
    linked = {binary}
    with CpioWriter(path) as image:
        image.file(str(binary), binary)
        image.link("/bin/python3", str(binary))
        for source in _tree(stdlib, _STDLIB_LEFT_OUT, "config-"):
            image.file(str(source), source)
            if source.suffix == ".so":
                linked.add(source)
        for name in PACKAGES:
            for source, inside in _package(name):
                image.file(f"{SITE}/{inside}", source)
                if ".so" in source.name:
                    linked.add(source)
        for library, real in sorted(_libraries(linked).items()):
            image.file(library, real)


def _tree(top: Path, left_out: set[str] = frozenset(), prefix: str = "\0") -> Iterator[Path]:
    for folder, names, files in os.walk(top):
        names[:] = sorted(n for n in names if n not in left_out and not n.startswith(prefix))
        for name in sorted(files):
            source = Path(folder, name)
            if source.suffix != ".a" and source.is_file():
                yield source


def _package(name: str) -> Iterator[tuple[Path, Path]]:
    """Files of a package, and of the libraries that its wheel brought, with their places."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise CannotRun(f"this Python has no package {name}: make vm uses the environment's")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        yield origin, Path(origin.name)
        return
    site = origin.parents[1]
    for top in (origin.parent, site / f"{name}.libs"):
        for source in _tree(top, {"tests"}):
            yield source, source.relative_to(site)


def _libraries(linked: set[Path]) -> dict[str, Path]:
    """Shared libraries, and the loader, that binaries ask for: guest path to file."""
    found: dict[str, Path] = {}
    said = command(["ldd", *map(str, sorted(linked))])
    for line in said.splitlines():
        words = line.split()
        path = words[2] if len(words) > 3 and words[1] == "=>" else words[0] if words else ""
        if "not found" in line:
            raise CannotRun(f"a library is missing here: {line.strip()}")
        if line[:1].isspace() and path.startswith("/") and not path.startswith(str(ROOT / ".venv")):
            found[path] = Path(path).resolve()
    return found


def build(path: Path, board: str, cache: Path) -> None:
    """All of it. Raises: CannotRun."""
    python_image(path)
    checkout_image(path, kernel_modules(cache / "kernel", MODULES), [board], cache)


def checkout_image(
    path: Path, modules: Sequence[tuple[str, bytes]], boards: Sequence[str], cache: Path,
    init: str = "init", firmware: Path | None = None,
) -> None:  # fmt: skip
    """And then: the checkout, compiled, the boards' firmware, kernel modules in order.

    `firmware`: a folder with AMD's own files, instead of those that are made here.
    """
    with CpioWriter(path, append=True) as image:
        for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc", "sbin"):
            image.folder(name)
        image.character_device("/dev/console", 5, 1)  # src: linux admin-guide/devices.txt
        image.data("/init", (GUEST / init).read_bytes(), 0o755)
        image.file("/bin/busybox", _busybox(cache))
        image.link("/bin/sh", "busybox")
        image.data("/modules/order", "\n".join(name for name, _ in modules).encode() + b"\n")
        for name, data in modules:
            image.data(f"/modules/{name}", data)
        if firmware is None:
            for place, data in {**world_files(boards), **firmware_linux.files(boards)}.items():
                image.data(place, data)
        else:
            for name in dict.fromkeys(name for board in boards for name in shipped.names(board)):
                if (firmware / name).exists():
                    image.file(f"{FOLDER}/{name}", (firmware / name).resolve())
        manifest = MANIFEST if firmware is None else OWN_MANIFEST
        image.data("/etc/firmware-manifest", manifest.encode())
        for package in SHIPPED:
            for source in _tree(ROOT / package, {_CACHE}):
                _ship(image, source, cache)
        for source in (*sorted(GUEST.glob("*.py")), ROOT / "bench.py"):
            _ship(image, source, cache)


def _ship(image: CpioWriter, source: Path, cache: Path) -> None:
    """A file of the checkout; with compiled code, which a slow guest should not have to make."""
    place = f"{CHECKOUT}/{source.relative_to(ROOT)}"
    image.file(place, source)
    if source.suffix == ".py":
        compiled = cache / "scratch.pyc"
        mode = PycInvalidationMode.UNCHECKED_HASH
        compile_file(str(source), str(compiled), dfile=place, doraise=True, invalidation_mode=mode)
        tag = sys.implementation.cache_tag
        folder, name = os.path.split(place)
        image.data(f"{folder}/{_CACHE}/{name[:-3]}.{tag}.pyc", compiled.read_bytes())


def _busybox(cache: Path) -> Path:
    """Of whichever kernel's folder has one. Raises: CannotRun."""
    for name in ("kernel", "kernel-amdgpu"):
        path = cache / name / "usr" / "bin" / "busybox"
        if path.exists():
            return path
    raise CannotRun(f"no busybox in {cache}: try again with --refresh")


def kernel_modules(tree: Path, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Modules and what they need, in an order in which they can be inserted."""
    files = {_module_name(path.name): path for path in tree.rglob("*.ko*")}
    ordered: dict[str, tuple[str, bytes]] = {}

    def add(name: str) -> None:
        path = files.get(_module_name(name))
        if path is None or path.name in ordered:
            return
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for needed in _needs(data):
            add(needed)
        ordered[path.name] = f"{_module_name(path.name)}.ko", data

    for name in names:
        add(name)
    return list(ordered.values())


def _module_name(text: str) -> str:
    return text.split(".", 1)[0].replace("-", "_")


def _needs(module: bytes) -> list[str]:
    """# src: linux scripts/mod/modpost.c: "depends=a,b" in the section .modinfo"""
    section = ELFFile(io.BytesIO(module)).get_section_by_name(".modinfo")
    for entry in section.data().split(b"\0"):
        if entry.startswith(b"depends="):
            return [name for name in entry[8:].decode().split(",") if name]
    return []
