"""Show compiled kernels: python -m compilers.disasm --help."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence

from compilers import cache
from compilers.command import command_parser, run_command
from compilers.families import every_family, family_of
from compilers.objects.listing import disassemble, render
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, NotFound
from drivers.cpu.features import read_processor
from drivers.world.linux import LinuxWorld
from unbound import terminal

_INPUT_LIMIT_BYTES = 64 << 20
ELF_MAGIC = b"\x7fELF"

_EXAMPLES = """\
examples:
  python -m compilers.disasm --cache           list the kernels in the cache
  python -m compilers.disasm 3f2a              show the cached kernel whose key starts with 3f2a
  python -m compilers.disasm matmul_32         ... or the cached kernels of that name
  python -m compilers.disasm kernel.ll         compile LLVM IR for this machine and show it
  python -m compilers.disasm kernel.c --features avx2,fma,bmi2
  python -m compilers.disasm kernel.o --name kernel --hot
  python -m compilers.disasm kernel.ll --arch gfx1100    ... or kernel.hip, or a code object
Lines of the loop that is likely hot are marked with >."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 after a DeviceError, which is printed."""
    options = _parser().parse_args(arguments)
    if not options.cache and not options.what:
        _parser().print_help()
        return 0
    return run_command(lambda: _listing(options) if options.cache else _show(options))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "compilers.disasm", "Annotated disassembly of compiled kernels.", _EXAMPLES
    )
    parser.add_argument(
        "what",
        nargs="?",
        help="a .ll, .c or .hip source, an ELF object, a cache entry, or a cached kernel's key "
        "or name",
    )
    parser.add_argument("--cache", action="store_true", help="list what the cache holds")
    parser.add_argument("--dir", default="", help="the cache directory (default: the user's)")
    parser.add_argument("--name", default="", help="the function to enter (default: the first)")
    parser.add_argument(
        "--arch", default="", help="x86_64, aarch64, gfx1100, ... (default: this machine)"
    )
    parser.add_argument(
        "--features", default="native", help="comma-separated instruction sets, or native"
    )
    parser.add_argument("--hot", action="store_true", help="only the hot loop")
    return parser


def _store(options: argparse.Namespace) -> cache.Cache:
    return cache.Cache(options.dir or cache.default_directory())


def _listing(options: argparse.Namespace) -> Iterator[str]:
    store = _store(options)
    yield f"{'key':12}  {'arch':8}  {'image':>8}  {'code':>8}  name      ({store.directory})"
    for key, binary in store.entries():
        code = binary.data_offset or len(binary.image)
        yield f"{key[:12]}  {binary.arch:8}  {len(binary.image):8}  {code:8}  {binary.name}"


def _show(options: argparse.Namespace) -> Iterator[str]:
    for binary in _binaries(options):
        lines = disassemble(binary)
        code_bytes = sum(len(line.code) for line in lines)
        yield (
            f"; {binary.name} for {binary.arch}: {code_bytes} bytes of code in {len(lines)} "
            f"instructions, {len(binary.image) - (binary.data_offset or code_bytes)} of data"
        )
        outside = sorted({fixup.symbol for fixup in binary.fixups if fixup.symbol})
        if outside:
            yield f"; calls outside: {', '.join(outside)}"
        yield from render(line for line in lines if line.hot or not options.hot)


def _binaries(options: argparse.Namespace) -> list[Binary]:
    if not os.path.isfile(options.what):
        return _cached(options)
    with open(options.what, "rb") as file:
        blob = file.read(_INPUT_LIMIT_BYTES)
    base, suffix = os.path.splitext(os.path.basename(options.what))
    if blob.startswith(cache.MAGIC):
        return [cache.parse(base, blob)]
    for family in every_family():
        named = family.arch_of(blob)
        if named is not None:
            name = options.name or _only(family.functions(blob, named))
            return [family.load(blob, name, named)]
    arch, features = _machine(options)
    family, made = family_of(arch), blob
    chosen = [t for t in family.toolchains.values() if t.suffix == suffix]
    if chosen:
        source = blob.decode(errors="replace")
        made = chosen[0].compiler.compile_object(source, arch, features)
    elif not blob.startswith(ELF_MAGIC):
        suffixes = " or ".join(t.suffix for t in family.toolchains.values())
        raise MalformedInput(
            f"{options.what} is not a source for {arch}, object or cache entry",
            hint=f"Give a {suffixes} file, an object or an entry of the cache",
        )
    return [family.load(made, options.name or _only(family.functions(made, arch)), arch)]


def _only(names: list[str]) -> str:
    if not names:
        raise MalformedInput("the object defines no function", hint="Give --name")
    return names[0]


def _cached(options: argparse.Namespace) -> list[Binary]:
    entries = list(_store(options).entries())
    found = [b for key, b in entries if key.startswith(options.what) or b.name == options.what]
    if not found:
        raise NotFound(
            f"no file and no cached kernel {options.what!r}", hint="--cache lists the kernels"
        )
    return found


def _machine(options: argparse.Namespace) -> tuple[str, frozenset[str]]:
    here = read_processor(LinuxWorld())
    arch = options.arch or here.arch
    if options.features != "native":
        return arch, frozenset(options.features.split(",")) - {""}
    return arch, here.limits.features if arch == here.arch else frozenset()


if __name__ == "__main__":
    terminal.run(main)
