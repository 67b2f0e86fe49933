"""C text to a relocatable object, through a clang binary: the selectable second CPU compiler.

The binary is a clang on PATH, else the one that the `ziglang` wheel carries: `zig clang`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from compilers.cpu.targets import Target, target
from drivers.base.errors import CompileError, NotFound

NAMES = ("clang", *(f"clang-{version}" for version in range(22, 13, -1)))
WHEEL = "ziglang"
"""A package of PyPI: `zig clang` is an unchanged clang with every target."""
TIMEOUT_S = 60.0

_FLAGS = (
    "-O3",
    "-std=c11",
    "-ffreestanding",
    "-fPIC",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
    "-mcmodel=small",
)
_X86_FLAGS = ("-mprefer-vector-width=512",)


def find() -> list[str]:
    """How to start the first clang of NAMES on PATH, else the wheel's. Raises: NotFound."""
    for name in NAMES:
        for directory in os.environ.get("PATH", "").split(os.pathsep):
            path = os.path.join(directory, name)
            if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
                return [path]
    spec = find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        folder = os.path.dirname(spec.origin)
        # It does not search for clang's own headers where the wheel has them.
        return [os.path.join(folder, "zig"), "clang", "-isystem", f"{folder}/lib/include"]
    raise NotFound(
        "there is no clang on PATH",
        hint=f"Install clang, or `pip install {WHEEL}`, or use the LLVM compiler",
    )


def identity() -> bytes:
    """Identity of the clang, without running it. Raises: NotFound."""
    path = os.path.realpath(find()[0])
    facts = os.stat(path)
    return f"{os.path.basename(path)} {facts.st_size} {facts.st_mtime_ns}".encode()


def arguments(goal: Target, features: frozenset[str]) -> list[str]:
    """The command line after the compiler's name: standard input to standard output."""
    known = goal.known(features)
    if goal.arch == "x86_64":
        machine = [f"-march={goal.cpu(features)}", *(f"-m{name}" for name in known), *_X86_FLAGS]
    else:
        machine = ["-march=armv8-a"]
    return [f"--target={goal.triple}", *_FLAGS, *machine, "-c", "-x", "c", "-", "-o", "-"]


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Compile one translation unit; never with fast-math.

    Raises: CompileError with clang's log and the source; Unsupported; NotFound.
    """
    import subprocess

    command = [*find(), *arguments(target(arch), features)]
    try:
        done = subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"clang did not end in {TIMEOUT_S} s", source=source) from error
    log = done.stderr.decode(errors="replace")
    if done.returncode:
        raise CompileError(
            f"clang rejects the kernel: {log.strip().partition(chr(10))[0]}",
            log=log,
            source=source,
            hint="The error's `log` and `source` hold the rest",
        )
    return done.stdout
