"""LLVM IR text to a relocatable object, in this process, through llvmlite.

llvmlite costs about 0.25 s and 170 MB to import: it is imported by the first real compilation, so
that a warm cache does without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from traceback import walk_tb
from types import TracebackType
from typing import Any

from compilers.cpu.targets import target
from drivers.base import forks
from drivers.base.errors import CompileError, NotFound

_NO_LLVMLITE = "Install it with: pip install llvmlite"


def identity() -> bytes:
    """Identity of the installed LLVM, found without importing it.

    Raises: NotFound when llvmlite is not installed.
    """
    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound("llvmlite is not installed", hint=_NO_LLVMLITE)
    with open(os.path.join(spec.submodule_search_locations[0], "_version.py"), "rb") as file:
        return b"llvmlite " + file.read()


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Optimise at O3 and assemble position-independent code; no fast-math anywhere.

    Raises: CompileError with LLVM's message and the source; Unsupported; NotFound.
    """
    goal = target(arch)
    if "\0" in source:  # LLVM would stop there without an error
        raise CompileError("the module has a NUL in it", source=source, log="NUL in the text")
    settings = ",".join([*(f"+{name}" for name in goal.known(features)), *goal.tuning])
    with library() as llvm:
        return _compiled(llvm, source, goal.triple, goal.cpu(features), settings)


def _compiled(llvm: Any, source: str, triple: str, cpu: str, settings: str) -> bytes:
    machine = machine_for(llvm, triple, cpu, settings)
    return optimised(llvm, verified(llvm, source, source, machine, triple), machine)


@contextmanager
def library() -> Iterator[Any]:
    """llvmlite's binding; objects made with it are gone when this ends, also after an error.

    No other thread forks inside: llvmlite holds a lock of its own around every call, also of
    finalisers. So objects that an exception's frames keep are dropped here, too, those of inner
    calls first: what is being made there does not hold yet what it is made of. Raises: NotFound.
    """
    with forks.postponed():
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            raise NotFound("llvmlite cannot be imported", hint=_NO_LLVMLITE) from error
        try:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            yield llvm
        except BaseException as error:
            for each in (error, error.__cause__):
                _clear_frames(each.__traceback__ if each is not None else None)
            raise


def _clear_frames(found: TracebackType | None) -> None:
    """Drop what the frames of a traceback hold, except of those that still run.

    `traceback.clear_frames` begins with outer calls, and Python 3.14 drops a call's last variable
    first: an interrupted `ModuleRef.__init__` would free its context before its module.
    """
    for frame, _ in reversed(list(walk_tb(found))):
        with suppress(RuntimeError):  # it still runs
            frame.clear()


def machine_for(llvm: Any, triple: str, cpu: str, settings: str) -> Any:
    """LLVM's compiler for a processor: position-independent code at O3."""
    made = llvm.Target.from_triple(triple)
    return made.create_target_machine(cpu, settings, 3, "pic", "small")


def verified(llvm: Any, text: str, source: str, machine: Any, triple: str) -> Any:
    """The module in `text`, for a machine. Only it holds its context, which is freed after it.

    Raises: CompileError with LLVM's message and the source.
    """
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(
            f"LLVM rejects the module: {str(error).strip()}",
            log=str(error),
            source=source,
            hint="The error's `source` holds the whole module",
        ) from error
    return module


def optimised(llvm: Any, module: Any, machine: Any) -> bytes:
    """The object of a verified module, at O3."""
    optimise(llvm, module, machine)
    return bytes(machine.emit_object(module))


def assembly(llvm: Any, module: Any, machine: Any) -> str:
    """The assembly text of a verified module, at O3."""
    optimise(llvm, module, machine)
    return str(machine.emit_assembly(module))


def optimise(llvm: Any, module: Any, machine: Any) -> None:
    """Run the passes of O3 over a module."""
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    try:
        passes.run(module, builder)
    finally:
        free_passes(llvm, passes)


def free_passes(llvm: Any, passes: Any) -> None:
    """Free a pass manager, some 70 KiB with what its passes keep; llvmlite does not.

    # src: llvmlite/binding/newpassmanagers.py, class ModulePassManager(ObjectRef, NewPassManager):
    # it inherits the empty _dispose() of the first one, and the second one has what frees it
    """
    if not passes.closed:
        llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()
