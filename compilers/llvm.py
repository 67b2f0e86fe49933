"""LLVM IR text to a relocatable object, in this process, through llvmlite.

llvmlite costs about 0.25 s and 170 MB to import: it is imported by the first real compilation, so
that a warm cache never pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from compilers.targets import target
from drivers.base.errors import CompileError, NotFound

_NO_LLVMLITE = "Install it with: pip install llvmlite"


def identity() -> bytes:
    """What tells one installed LLVM from another, found without importing it.

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
    if "\0" in source:  # LLVM would read up to it and be content
        raise CompileError("the module has a NUL in it", source=source, log="NUL in the text")
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise NotFound("llvmlite cannot be imported", hint=_NO_LLVMLITE) from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    settings = [f"+{name}" for name in goal.known(features)]
    machine = llvm.Target.from_triple(goal.triple).create_target_machine(
        goal.cpu(features), ",".join([*settings, *goal.tuning]), 3, "pic", "small"
    )
    with verified_module(llvm, source, source, machine, goal.triple) as module:
        return optimised(llvm, module, machine)


@contextmanager
def verified_module(llvm: Any, text: str, source: str, machine: Any, triple: str) -> Iterator[Any]:
    """The module in `text`, for a machine, disposed before its context: LLVM insists on that.

    Raises: CompileError with LLVM's message and the source.
    """
    with ExitStack() as stack:
        context = stack.enter_context(llvm.create_context())
        try:
            module = stack.enter_context(llvm.parse_assembly(text, context))
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
        yield module


def optimised(llvm: Any, module: Any, machine: Any) -> bytes:
    """The object of a verified module, at O3."""
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))
