"""Kernels: a module, its layouts, a pipeline for each block, a bind group for each set of buffers.

All of them are made once: a second launch with the same buffers makes no object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from drivers.base.contracts import Grid
from drivers.base.errors import MalformedInput, UseAfterFree
from drivers.base.undo import Step, Undo, run_all
from drivers.webgpu import abi
from drivers.webgpu.api import view
from drivers.webgpu.layout import Text
from drivers.webgpu.link import Link
from drivers.webgpu.memory import Block
from drivers.webgpu.modules import make_module
from drivers.world.native import address_of
from queues.webgpu.kernel_code import BLOCK, READ, WgslCode

MAX_GROUPS: Final = 128
"""Bind groups that a kernel keeps."""
_WORD_BYTES: Final = 8


class BindLayouts:
    """Layouts of bind groups and pipelines of a device: one for each list of accesses."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._made: dict[bytes, tuple[int, int]] = {}

    def of(self, access: bytes) -> tuple[int, int]:
        """(WGPUBindGroupLayout, WGPUPipelineLayout)."""
        found = self._made.get(access)
        if found is None:
            found = self._made[access] = self._make(access)
        return found

    def _make(self, access: bytes) -> tuple[int, int]:
        link, api = self._link, self._link.api
        kinds = {True: api.flavour.binding_read_only, False: api.flavour.binding_storage}
        entries = api.row("BindGroupLayoutEntry", [
            {"binding": place, "visibility": abi.STAGE_COMPUTE,
             "buffer.type": kinds[one == ord(READ)]}
            for place, one in enumerate(access)
        ])  # fmt: skip
        record = api.record("BindGroupLayoutDescriptor", entryCount=len(access), entries=entries.at)
        release = "wgpuBindGroupLayoutRelease"
        with Undo() as undo:
            group = link.make("wgpuDeviceCreateBindGroupLayout", record.at, release)
            undo.add(partial(link.do[release], group))
            listed = bytearray(group.to_bytes(_WORD_BYTES, "little"))
            whole = api.record(
                "PipelineLayoutDescriptor", bindGroupLayoutCount=1,
                bindGroupLayouts=address_of(listed),
            )  # fmt: skip
            pipeline = link.make(
                "wgpuDeviceCreatePipelineLayout", whole.at, "wgpuPipelineLayoutRelease"
            )
        return group, pipeline

    def close(self) -> None:
        """Release all."""
        made, self._made = self._made, {}
        do = self._link.do
        run_all([
            *(partial(do["wgpuPipelineLayoutRelease"], one) for _, one in made.values()),
            *(partial(do["wgpuBindGroupLayoutRelease"], one) for one, _ in made.values()),
        ])  # fmt: skip


class ProgramOwner(Protocol):
    """The device, as far as a program needs it."""

    link: Link
    layouts: BindLayouts

    def drop_program(self, release: Step) -> None:
        """Finalisers call this at any moment: release a program's objects later."""


class WebGpuProgram:
    """A loaded kernel. `gpu_va` is the handle of its first pipeline: WebGPU shows no address."""

    def __init__(self, device: ProgramOwner, name: str, code: WgslCode, block: int) -> None:
        self.closed = True
        self.device, self.name, self.code = device, name, code
        self.nargs, self.block = len(code.access), (block or code.block, 1, 1)
        self._layout, self._pipeline_layout = device.layouts.of(code.access)
        self._pipelines: dict[Grid, int] = {}
        self._groups: dict[tuple[Block, ...], int] = {}
        self.gpu_va = self.pipeline(self.block)
        self.closed = False

    def __repr__(self) -> str:
        return f"WebGpuProgram({self.name})"

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(f"{self.name} was used after close()", hint="load it again")
        raise AttributeError(name)

    def pipeline(self, block: Grid) -> int:
        """Of workgroups of these sizes. Raises: MalformedInput, DeviceError."""
        found = self._pipelines.get(block)
        if found is None:
            found = self._pipelines[block] = self._make(block)
        return found

    def _make(self, block: Grid) -> int:
        link, api = self.device.link, self.device.link.api
        source = self.code.source.decode()
        own = BLOCK.format(self.code.block, 1, 1)
        if own not in source:  # else it would run with the source's own block, unnoticed
            raise MalformedInput(f"{self.name}: its source has no {own}", hint="compile it anew")
        module = make_module(link, source.replace(own, BLOCK.format(*block), 1))
        try:
            entry = Text(self.code.entry)
            record = api.record("ComputePipelineDescriptor", layout=self._pipeline_layout)
            record["compute.module"] = module
            view(record, "compute.entryPoint", entry)
            call = "wgpuDeviceCreateComputePipeline"
            return link.make(call, record.at, "wgpuComputePipelineRelease")
        finally:
            link.do["wgpuShaderModuleRelease"](module)

    def group(self, blocks: tuple[Block, ...]) -> int:
        """The bind group of these buffers. Raises: DeviceError."""
        found = self._groups.get(blocks)
        if found is None:
            if len(self._groups) >= MAX_GROUPS:
                self._release(self._groups.pop(next(iter(self._groups))))
            found = self._groups[blocks] = self._bound(blocks)
        return found

    def written(self, blocks: Sequence[Block]) -> list[Block]:
        """Those that it writes."""
        pairs = zip(blocks, self.code.access, strict=True)
        return [block for block, one in pairs if one != ord(READ)]

    def read_from(
        self, blocks: Sequence[Block], copies: Mapping[Block, Block]
    ) -> tuple[Block, ...]:
        """The same arguments, with copies in place of what it reads."""
        pairs = zip(blocks, self.code.access, strict=True)
        return tuple(
            copies.get(block, block) if one == ord(READ) else block for block, one in pairs
        )

    def _bound(self, blocks: Sequence[Block]) -> int:
        link, api = self.device.link, self.device.link.api
        entries = api.row("BindGroupEntry", [
            {"binding": place, "buffer": block.handle, "size": block.nbytes}
            for place, block in enumerate(blocks)
        ])  # fmt: skip
        record = api.record(
            "BindGroupDescriptor", layout=self._layout, entryCount=len(blocks), entries=entries.at
        )
        return link.make("wgpuDeviceCreateBindGroup", record.at, "wgpuBindGroupRelease")

    def _release(self, group: int) -> None:
        self.device.link.do["wgpuBindGroupRelease"](group)

    def forget(self, block: Block) -> None:
        """Drop bind groups of memory that goes back to the library."""
        for blocks in [blocks for blocks in self._groups if block in blocks]:
            self._release(self._groups.pop(blocks))

    def close(self) -> None:
        _ = self.gpu_va
        self.closed = True
        del self.gpu_va
        self.device.drop_program(self._release_all)  # a step that waits may still use them

    def _release_all(self) -> None:
        do = self.device.link.do
        groups, self._groups = self._groups, {}
        pipelines, self._pipelines = self._pipelines, {}
        run_all([
            *(partial(do["wgpuBindGroupRelease"], one) for one in groups.values()),
            *(partial(do["wgpuComputePipelineRelease"], one) for one in pipelines.values()),
        ])  # fmt: skip

    def __del__(self) -> None:
        if not self.closed:
            self.close()
