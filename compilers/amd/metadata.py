"""A code object's metadata of its kernels: the NT_AMDGPU_METADATA note.

Source: LLVM AMDGPUUsage, "Code Object V3 and Above Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compilers.amd.msgpack import Value, decode
from drivers.base.errors import MalformedInput
from drivers.base.view import View
from queues.amd.kernarg import ARG_KINDS

NOTE_LIMIT_BYTES: Final = 64 << 10
NOTES_LIMIT: Final = 64
"""Note sections of an object, and notes in one."""
KERNELS_LIMIT: Final = 256
ARGS_LIMIT: Final = 512
_NT_AMDGPU_METADATA: Final = 32
_OWNER: Final = b"AMDGPU\0"
_NOTE_HEAD, _NOTE_HEAD_BYTES, _NOTE_ALIGN = "III", 12, 4
_NUMBER_MAX: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class KernelArg:
    """One entry of the kernarg segment. Sizes in bytes."""

    name: str
    offset: int
    nbytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """The note's entry of one kernel. Sizes in bytes."""

    name: str
    symbol: str
    """Name of the kernel descriptor."""
    args: tuple[KernelArg, ...]
    kernarg_bytes: int
    kernarg_align_bytes: int
    group_bytes: int
    private_bytes: int
    wave_lanes: int
    max_workgroup_lanes: int
    vgprs: int
    sgprs: int
    agprs: int
    vgpr_spills: int
    sgpr_spills: int
    dynamic_stack: bool


def kernels(notes: Sequence[View]) -> tuple[KernelMetadata, ...]:
    """The kernels of a code object, from its note sections or segments. Raises: MalformedInput."""
    if len(notes) > NOTES_LIMIT:
        raise MalformedInput(f"code object: {len(notes)} note sections, more than {NOTES_LIMIT}")
    found = [body for view in notes for body in _metadata(view)]
    if len(found) != 1:
        raise MalformedInput(f"code object: {len(found)} metadata notes, expected one")
    root = decode(found[0])
    if not isinstance(root, dict):
        raise found[0].fail("metadata that is no map")
    listed = root.get("amdhsa.kernels", [])
    if not isinstance(listed, list) or len(listed) > KERNELS_LIMIT:
        raise found[0].fail(f"amdhsa.kernels is not a list of up to {KERNELS_LIMIT}")
    return tuple(_kernel(found[0], entry) for entry in listed)


def _metadata(view: View) -> Iterator[View]:
    """The bodies of the metadata notes in one note section."""
    at = 0
    for _ in range(NOTES_LIMIT):
        if at >= len(view):
            return
        name_bytes, body_bytes, kind = view.unpack(_NOTE_HEAD, at, "note")
        at += _NOTE_HEAD_BYTES
        owner = view.bytes(at, name_bytes, "owner of a note")
        at += _padded(name_bytes)
        body = view.sub(at, body_bytes, "metadata")
        at += _padded(body_bytes)
        if owner == _OWNER and kind == _NT_AMDGPU_METADATA:
            if body_bytes > NOTE_LIMIT_BYTES:
                raise body.fail(f"{body_bytes} bytes, more than {NOTE_LIMIT_BYTES}")
            yield body


def _padded(nbytes: int) -> int:
    return nbytes + -nbytes % _NOTE_ALIGN


def _kernel(view: View, entry: Value) -> KernelMetadata:
    if not isinstance(entry, dict):
        raise view.fail("a kernel that is no map")
    listed = entry.get(".args", [])
    if not isinstance(listed, list) or len(listed) > ARGS_LIMIT:
        raise view.fail(f".args is not a list of up to {ARGS_LIMIT}")
    kernarg_bytes = _number(view, entry, ".kernarg_segment_size")
    return KernelMetadata(
        name=_text(view, entry, ".name"),
        symbol=_text(view, entry, ".symbol"),
        args=tuple(_arg(view, item, kernarg_bytes) for item in listed),
        kernarg_bytes=kernarg_bytes,
        kernarg_align_bytes=_number(view, entry, ".kernarg_segment_align"),
        group_bytes=_number(view, entry, ".group_segment_fixed_size"),
        private_bytes=_number(view, entry, ".private_segment_fixed_size"),
        wave_lanes=_number(view, entry, ".wavefront_size"),
        max_workgroup_lanes=_number(view, entry, ".max_flat_workgroup_size"),
        vgprs=_number(view, entry, ".vgpr_count"),
        sgprs=_number(view, entry, ".sgpr_count"),
        agprs=_number(view, entry, ".agpr_count", 0),
        vgpr_spills=_number(view, entry, ".vgpr_spill_count", 0),
        sgpr_spills=_number(view, entry, ".sgpr_spill_count", 0),
        dynamic_stack=entry.get(".uses_dynamic_stack", False) is True,
    )


def _arg(view: View, entry: Value, kernarg_bytes: int) -> KernelArg:
    if not isinstance(entry, dict):
        raise view.fail("an argument that is no map")
    name = entry.get(".name", "")
    kind = _text(view, entry, ".value_kind")
    offset, nbytes = _number(view, entry, ".offset"), _number(view, entry, ".size")
    if not isinstance(name, str) or kind not in ARG_KINDS:
        raise view.fail(f"an argument of kind {kind[:32]!r}")
    if offset + nbytes > kernarg_bytes:
        raise view.fail(f"an argument at {offset}+{nbytes} of {kernarg_bytes} bytes")
    return KernelArg(name, offset, nbytes, kind)


def _number(view: View, entry: Mapping[str, Value], key: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _NUMBER_MAX:
        raise view.fail(f"{key} is not a number")
    return value


def _text(view: View, entry: Mapping[str, Value], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise view.fail(f"{key} is not a name")
    return value
