"""Runs with Triton's wheel on its path: `python -m tests.triton.compiled FOLDER CHIP...`.

Writes each case's code for each chip, `CHIP-NUMBER.hsaco` or `.ptx`, and `index.json` beside them.
A case that Triton refuses for a chip has its message there. Triton asks for no GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.compiler import compile as compile_kernel

from tests.triton import all_cases, kernels, products
from tests.triton.case import Case

WAVES = {"gfx9": 64}
"""Lanes of a wave where it is not 32."""


def target(chip: str) -> GPUTarget:
    """Triton's name of a chip: gfx... or sm_..."""
    if chip.startswith("sm_"):
        return GPUTarget("cuda", int(chip[3:].rstrip("a")), 32)
    return GPUTarget("hip", chip, WAVES.get(chip[:4], 32))


def until_ptx(made: Any) -> None:
    """NVIDIA's assembler is not called: the text is what is wanted."""
    whole = made.add_stages

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        whole(self, stages, *rest)
        stages["cubin"] = lambda *_: b""

    made.add_stages = add_stages


def compiled(case: Case, chip: str, path: Path) -> dict[str, Any]:
    """Write the code; what a launch has to know."""
    function = getattr(products if hasattr(products, case.kernel) else kernels, case.kernel)
    constants = {
        name: getattr(tl, value[3:]) if isinstance(value, str) and value[:3] == "tl." else value
        for name, value in case.constants.items()
    }
    source = ASTSource(function, case.signature(), constants)
    made = compile_kernel(source, target=target(chip), options={"num_warps": case.warps})
    kind = "ptx" if chip.startswith("sm_") else "hsaco"
    code = made.asm[kind]
    path = path.with_suffix(f".{kind}")
    path.write_bytes(code.encode() if isinstance(code, str) else code)
    about = made.metadata
    return {"file": path.name, "symbol": about.name, "shared": about.shared,
            "lanes": about.num_warps * about.warp_size}  # fmt: skip


def main() -> int:
    """0, also where some cases are refused."""
    folder, chips = Path(sys.argv[1]), sys.argv[2:]
    until_ptx(CUDABackend)
    index: dict[str, dict[str, Any]] = {}
    for chip in chips:
        found = index[chip] = {}
        for number, case in enumerate(all_cases.every()):
            try:
                found[case.title] = compiled(case, chip, folder / f"{chip}-{number}")
            except Exception as error:
                inner = error.__cause__ or error
                text = " ".join(str(inner).split())
                found[case.title] = {"refused": f"{type(inner).__name__}: {text[-200:]}"}
    (folder / "index.json").write_text(json.dumps(index))
    return 0


if __name__ == "__main__":
    sys.exit(main())
