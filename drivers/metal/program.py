"""Programs: pipelines of one kernel, made from its source by Metal's own compiler."""

from __future__ import annotations

from typing import Final, Protocol

from drivers.base.errors import CompileError, MalformedInput, Unsupported, UseAfterFree
from drivers.base.undo import Undo, run_all
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api, Cell, Owned
from drivers.metal.errors import described, rejected
from queues.metal.kernel_code import MetalCode

LANGUAGE: Final = CONSTANTS["MTL::LanguageVersion3_0"]
"""Of macOS 13, as the addresses of buffers are."""
_NONE: Final = CONSTANTS["MTL::PipelineOptionNone"]


def make_library(api: Api, device: int, source: str) -> Owned:
    """Compile a source. Raises: CompileError with the log and the line."""
    send, error = api.send, Cell()
    with Undo() as undo, api.pool():
        options = api.new("MTLCompileOptions")
        undo.add(options.release)
        text = api.string(source)
        undo.add(text.release)
        send["setFastMathEnabled:"](options.handle, 0)
        send["setLanguageVersion:"](options.handle, LANGUAGE)
        found = send["newLibraryWithSource:options:error:"](
            device, text.handle, options.handle, error.at
        )
        if not found:
            raise rejected(described(api, error.word)[1], source)
        library = Owned(api, found)
    run_all([options.release, text.release])
    return library


def make_pipeline(api: Api, device: int, source: str, entry: str) -> Owned:
    """A pipeline of one kernel of a source. Raises: CompileError, MalformedInput."""
    send, error, library = api.send, Cell(), make_library(api, device, source)
    with Undo() as undo:
        undo.add(library.release)
        name = api.string(entry)
        undo.add(name.release)
        made = send["newFunctionWithName:"](library.handle, name.handle)
        if not made:
            raise MalformedInput(f"the source has no kernel {entry}", hint="compile it anew")
        function = Owned(api, made)
        undo.add(function.release)
        descriptor = api.new("MTLComputePipelineDescriptor")
        undo.add(descriptor.release)
        send["setComputeFunction:"](descriptor.handle, function.handle)
        send["setSupportIndirectCommandBuffers:"](descriptor.handle, 1)
        with api.pool():
            found = send["newComputePipelineStateWithDescriptor:options:reflection:error:"](
                device, descriptor.handle, _NONE, 0, error.at
            )
            if not found:
                log = described(api, error.word)[1]
                raise CompileError(
                    f"Metal makes no pipeline of {entry}: {log:.300}", log=log, source=source,
                    hint="The error's `source` holds the kernel",
                )  # fmt: skip
    run_all([descriptor.release, function.release, name.release, library.release])
    return Owned(api, found)


def load_pipeline(api: Api, device: int, code: MetalCode, entry: str, wave_lanes: int) -> Owned:
    """A pipeline that runs workgroups as its code says.

    Raises: CompileError, MalformedInput; Unsupported where its registers allow fewer lanes.
    """
    made = make_pipeline(api, device, code.source.decode(errors="replace"), entry)
    with Undo() as undo:
        undo.add(made.release)
        most = api.send["maxTotalThreadsPerThreadgroup"](made.handle)
        if code.block > most:
            raise Unsupported(
                f"{entry} has workgroups of {code.block} lanes, and Metal runs it with at most "
                f"{most} (maxTotalThreadsPerThreadgroup)",
                hint="report this kernel with the version of macOS",
            )
        width = api.send["threadExecutionWidth"](made.handle)
        if wave_lanes > 1 and width != wave_lanes:
            raise Unsupported(
                f"{entry} runs in SIMD-groups of {width} lanes, and was compiled for {wave_lanes}",
                hint="report this kernel with the name of the GPU",
            )
        shared = api.send["staticThreadgroupMemoryLength"](made.handle)
        if shared < code.shared_bytes:
            raise MalformedInput(
                f"{entry} has {shared} bytes of shared memory, not {code.shared_bytes}",
                hint="compile it anew",
            )
    return made


class ProgramOwner(Protocol):
    """The device, as far as a program needs it."""

    def drop(self, owned: Owned) -> None:
        """Finalisers call this at any moment: release an object once nothing runs."""


class MetalProgram:
    """A loaded kernel. `gpu_va` is the address of its pipeline object: Metal shows no other."""

    def __init__(
        self, device: ProgramOwner, name: str, pipeline: Owned, code: MetalCode, block: int
    ) -> None:
        self.device, self.name, self.nargs = device, name, code.nargs
        self.block, self.max_block = block, code.block
        self._pipeline: Owned | None = pipeline
        self.gpu_va = pipeline.handle

    def __repr__(self) -> str:
        return f"MetalProgram({self.name})"

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree(f"{self.name} was used after close()", hint="load it again")
        raise AttributeError(name)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._pipeline is None

    def close(self) -> None:
        _ = self.gpu_va
        pipeline, self._pipeline = self._pipeline, None
        del self.gpu_va
        if pipeline is not None:
            self.device.drop(pipeline)

    def __del__(self) -> None:
        if not self.closed:
            self.close()
