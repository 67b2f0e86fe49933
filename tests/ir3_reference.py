"""What Mesa says of ir3 code: its published vectors, its examples, and its disassembler.

The vectors are read from a fetched source tree (`make references`), the disassembler is that of the
wheel tinymesa (`pip install .[qcom]`); neither is kept here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple

from tests.references import MESA, find

NO_MESA = "no Mesa source: make references"
NO_TINYMESA = "no tinymesa: pip install .[qcom]"
_VECTOR = re.compile(r'^\s*INSTR_([67])XX(_RAW)?\((\w+), "([^"]*)"', re.MULTILINE)
_LINE = re.compile(r"^\s*\d*:?\d*\[[0-9a-f]{8}x_[0-9a-f]{8}x\] ?", re.MULTILINE)
_INDEXED = re.compile(r"^((?:\(\w+\))*(?:ld|st)g\.a[^\[]*\[\w+\.\w)[^\]]*")
_DECLARED = """
typedef struct {
    uint32_t gpu_id; bool show_errors; unsigned max_errors; bool branch_labels; bool stop;
    void *cbdata; void *field_cb; void *field_print_cb; void *pre_instr_cb; void *post_instr_cb;
    void *no_match_cb; unsigned entrypoint_count; void *entrypoints;
} options;
int ir3_isa_disasm(void *code, int bytes, void *file, options *how);
void *open_memstream(char **text, size_t *size);
int fclose(void *file);
void free(void *text);
"""


class Vector(NamedTuple):
    """One line of Mesa's test of its disassembler."""

    generation: int
    word: int
    text: str


def mesa() -> Path | None:
    """The source tree, when it was fetched."""
    return find(MESA)


@cache
def vectors() -> tuple[Vector, ...]:
    """All of generations 6 and 7 in src/freedreno/ir3/tests/disasm.c; empty without the tree."""
    root = mesa()
    if root is None:
        return ()
    source = (root / "src/freedreno/ir3/tests/disasm.c").read_text()
    source = re.sub(r"^#if 0.*?^#(else|endif)", "", source, flags=re.MULTILINE | re.DOTALL)
    return tuple(
        Vector(int(found[1]), int(found[3].replace("_", ""), 16), found[4])
        for found in _VECTOR.finditer(source)
    )


@cache
def _library() -> tuple[Any, Any, Any]:
    from cffi import FFI

    found = util.find_spec("tinymesa")
    ffi = FFI()
    ffi.cdef(_DECLARED)
    folder = Path(found.origin).parent if found is not None and found.origin else Path()
    return ffi, ffi.dlopen(str(folder / "libtinymesa.so")), ffi.dlopen(None)


def without_index(text: str) -> str:
    """Mesa 25.2 writes the index of generation 6's ldg.a and stg.a in other words than 25.0."""
    return _INDEXED.sub(r"\1", text)


def has_tinymesa() -> bool:
    """Whether `disassembled` can be asked."""
    return util.find_spec("tinymesa") is not None


def disassembled(words: Sequence[int], generation: int) -> list[str]:
    """One text a word, errors of the decoder in it."""
    ffi, mesa_library, libc = _library()
    code = ffi.from_buffer("char[]", b"".join(word.to_bytes(8, "little") for word in words))
    how = ffi.new("options *", {"gpu_id": generation * 100, "show_errors": True})
    text, size = ffi.new("char **"), ffi.new("size_t *")
    file = libc.open_memstream(text, size)
    mesa_library.ir3_isa_disasm(code, 8 * len(words), file, how)
    libc.fclose(file)
    found = bytes(ffi.buffer(text[0], size[0])).decode("utf-8", "replace")
    libc.free(text[0])
    return [line.strip() for line in found.rstrip("\n").split("\n")]
