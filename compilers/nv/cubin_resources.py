"""What a launch of a cubin's kernel needs, from its sections and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compilers.nv.cubin_code import Layout
from compilers.nv.cubin_file import CubinFile, Section, Symbol
from compilers.nv.cubin_info import ARGS_LIMIT, KernelInfo, Param
from compilers.nv.targets import FIRST_INCLUDING_RESERVED, NvTarget, nv_target
from drivers.base.contracts import Arg, Binary, Resources
from drivers.base.errors import Unsupported
from queues.nv.kernel_code import NvCode

ADDRESS_BYTES: Final = 8
_BARRIERS_SHIFT, _BARRIERS_MASK = 20, 0x7F


def resources_of(
    file: CubinFile,
    target: NvTarget,
    symbol: Symbol,
    code: list[Section],
    info: KernelInfo,
    layout: Layout,
) -> Resources:
    """What a launch of the kernel needs."""
    shared = _shared_bytes(file, target, symbol.name)
    record = NvCode(
        sm=target.sm,
        code_offset=0,
        code_bytes=layout.code_bytes,
        registers=info.registers or 0,
        barriers=_barriers(code[0], info),
        shared_bytes=shared + target.reserved_shared_bytes,
        local_bytes=max(info.min_stack_bytes or 0, info.frame_bytes),
        crs_bytes=info.crs_bytes,
        param_offset=info.param_offset or 0,
        param_bytes=info.param_bytes,
        bank0_bytes=_bank0_bytes(file, symbol.name, info),
        max_threads=info.max_threads,
        cluster_x=info.cluster[0],
        cluster_y=info.cluster[1],
        cluster_z=info.cluster[2],
        banks=layout.banks,
        patches=layout.patches,
    )
    made = Resources(
        max_block=info.max_threads,
        shared_bytes=shared,
        scratch_bytes=record.local_bytes,
        args=_args(file, info),
        vendor=record.encode(),
    )
    record.check(Binary(target.arch, symbol.name, layout.image, 0, resources=made))
    return made


def _shared_bytes(file: CubinFile, target: NvTarget, name: str) -> int:
    """What the kernel declares. From sm_90 on the section begins with the reserved part."""
    section = file.by_name.get(f".nv.shared.{name}")
    if section is None or not section.nbytes:
        return 0
    before = target.reserved_shared_bytes if target.sm >= FIRST_INCLUDING_RESERVED else 0
    if not before <= section.nbytes <= target.sm_shared_bytes:
        raise file.fail(f"{section.nbytes} bytes of shared memory")
    return section.nbytes - before


def _barriers(code: Section, info: KernelInfo) -> int:
    """The attribute, or flags of the code's section in cubins that have none."""
    if info.barriers is not None:
        return info.barriers
    return code.flags >> _BARRIERS_SHIFT & _BARRIERS_MASK


def _bank0_bytes(file: CubinFile, name: str, info: KernelInfo) -> int:
    bank = file.by_name.get(f".nv.constant0.{name}")
    if bank is None:
        raise file.fail(f"no .nv.constant0.{name}")
    if info.param_offset is None and (info.params or info.param_bytes):
        raise file.fail("parameters without a place in constant bank 0")
    return bank.nbytes


def _args(file: CubinFile, info: KernelInfo) -> tuple[Arg, ...]:
    params: list[Param] = sorted(info.params, key=lambda param: param.ordinal)
    if [param.ordinal for param in params] != list(range(len(params))):
        raise file.fail("parameters that are not numbered one after another")
    for param in params:
        inside = param.offset + param.nbytes <= info.param_bytes
        if not inside or not param.nbytes:
            raise file.fail(f"a parameter at {param.offset}+{param.nbytes}")
    found = tuple(arg for param in params for arg in _arg(param))
    if len(found) > ARGS_LIMIT:
        raise file.fail(f"more than {ARGS_LIMIT} arguments")
    return found


def _arg(param: Param) -> Iterator[Arg]:
    """A parameter, or the integers that a larger structure is passed as: of 8 bytes, smaller ones
    where it does not begin or end at a multiple of 8."""
    if param.nbytes <= ADDRESS_BYTES:
        yield Arg(param.offset, param.nbytes, param.nbytes == ADDRESS_BYTES)
        return
    at, end = param.offset, param.offset + param.nbytes
    for size in (1, 2, 4):
        if at % (2 * size):
            yield Arg(at, size, False)
            at += size
    for whole in range(at, end - ADDRESS_BYTES + 1, ADDRESS_BYTES):
        yield Arg(whole, ADDRESS_BYTES, False)
    at = end - end % ADDRESS_BYTES
    for size in (4, 2, 1):
        if end % (2 * size) >= size:
            yield Arg(at, size, False)
            at += size


def with_shared(binary: Binary, nbytes: int) -> Binary:
    """The same with so much shared memory, of which the code does not declare all: an array
    `extern __shared__`, for instance. Raises: Unsupported for more than there is."""
    target, needs, code = nv_target(binary.arch), binary.resources, NvCode.of(binary)
    if not needs.shared_bytes <= nbytes <= target.shared_bytes:
        raise Unsupported(
            f"{binary.name} declares {needs.shared_bytes} bytes of shared memory, not {nbytes}",
            hint=f"A workgroup of {target.arch} has at most {target.shared_bytes}",
        )
    more = nbytes - needs.shared_bytes
    record = replace(
        code, shared_bytes=code.shared_bytes + more, dynamic_bytes=code.dynamic_bytes + more
    )
    return replace(binary, resources=replace(needs, shared_bytes=nbytes, vendor=record.encode()))
