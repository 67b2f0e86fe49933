"""OpenCL C to a kernel by Qualcomm's own compiler (QCOM_CL=1), in the system's OpenCL library.

Tested with a made-up library that returns synthetic containers: never with Qualcomm's.
"""

from __future__ import annotations

import re
from typing import Final

from compilers import binary
from compilers.qcom import cl_library
from compilers.qcom.cl_code import binary_of, generation_6
from compilers.qcom.cl_container import read
from drivers.base.errors import CompileError

identity = cl_library.identity
"""Identity of the installed library, found without loading it."""
_HEAD: Final = re.compile(
    r"reqd_work_group_size\((\d{1,4}), 1, 1\)\)\)\s+void (\w{1,200})\(", re.ASCII
)


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Machine code of the one kernel of a source, as a Binary's bytes.

    Raises: CompileError with the build log and the source; NotFound without a library; Unsupported
    for another vendor's, another GPU, and what `binary_of` refuses; MalformedInput.
    """
    generation_6(arch)
    found = _HEAD.search(source)
    if found is None:
        raise CompileError(
            "the source has no kernel with reqd_work_group_size(lanes, 1, 1)",
            source=source, log="no kernel",
            hint="render it as compilers.qcom.cl_render does",
        )  # fmt: skip
    block, name = int(found[1]), found[2]
    container = cl_library.compiled(source, arch)
    return binary.encode(binary_of(read(container, name), arch, block))
