"""SASS as text, for tools and tests: by nvdisasm where it is there, else by the board's decoder.

nvdisasm reads a file and wants to seek in it: it is given one in memory, and nothing is written.
The board's text is nvdisasm's for the words that it knows (docs/nv-sass.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from compilers.instruction import Instruction
from compilers.nv.libraries import find_program
from compilers.nv.targets import nv_target
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput, NotFound
from queues.nv.kernel_code import NvCode

PROGRAM: Final = "nvdisasm"
OWN: Final = "boards.nv.listing"
"""Imported where there is no nvdisasm: a compiler needs no board."""
INSTRUCTION_BYTES: Final = 16
TIMEOUT_S: Final = 60.0
_LINE: Final = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", re.M)
_JUMP: Final = re.compile(r"\b(BRA|BRX|BREAK|BSSY|CALL|WARPSYNC|JMP)\b.*?\b(0x[0-9a-f]+)\b")
_BRANCHES: Final = frozenset({"BRA", "JMP"})


def listed(code: bytes, arch: str) -> list[tuple[int, str]]:
    """Offset and text of each instruction; "- WORD" for one that is not known.

    Raises: MalformedInput; NotFound where neither knows the architecture.
    """
    model = nv_target(arch).arch
    try:
        program = find_program(PROGRAM)
    except NotFound as missing:
        try:
            own: list[tuple[int, str]] = list(import_module(OWN).texts(code, model))
        except ValueError as unknown:
            raise missing from unknown
        return own
    return _by_program(program, code, model)


def _by_program(program: str, code: bytes, arch: str) -> list[tuple[int, str]]:
    import subprocess

    model = arch.replace("sm_", "SM")
    handle = os.memfd_create("sass")
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(code)
        command = [program, "-b", model, f"/proc/self/fd/{handle}"]
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, pass_fds=(handle,), check=False
        )
    finally:
        os.close(handle)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise MalformedInput(f"{PROGRAM}: {reason}", hint=f"Is it code for {arch}?")
    found = _LINE.findall(done.stdout.decode(errors="replace"))
    return [(int(at, 16), " ".join(text.split())) for at, text in found]


def instructions(binary: Binary) -> Iterator[Instruction]:
    """The instructions of a loaded kernel. Raises: see `listed`."""
    about = NvCode.of(binary)
    start = about.code_offset
    code = binary.image[start : start + about.code_bytes]
    for at, text in listed(code, binary.arch):
        found = _JUMP.search(text)
        goal = start + int(found[2], 16) if found else None
        if goal == start + at:  # the end of the code, which is never reached
            goal = None
        jump = goal is not None and found is not None and found[1] in _BRANCHES
        yield Instruction(start + at, code[at : at + INSTRUCTION_BYTES], text, goal, jump)
