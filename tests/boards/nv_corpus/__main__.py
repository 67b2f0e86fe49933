"""The corpus on some architectures: `python -m tests.boards.nv_corpus sm_86 sm_90a`.

Prints each kernel that is not right with the reason, then a table. `-k TEXT` takes the kernels
whose names have a text.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.boards.nv_corpus import ARCHES, KERNELS, sm_of
from tests.boards.nv_corpus.runner import HEAD, RIGHT, line, outcome
from unbound import terminal


def main(arguments: list[str]) -> int:
    """1 where a kernel is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.boards.nv_corpus", description=__doc__)
    parser.add_argument("arch", nargs="*", default=list(ARCHES))
    parser.add_argument("-k", dest="text", default="")
    asked = parser.parse_args(arguments)
    rows = []
    for arch in asked.arch:
        counts: Counter[str] = Counter()
        for kernel in KERNELS:
            if not kernel.on(sm_of(arch)) or asked.text not in kernel.name:
                continue
            found = outcome(kernel, arch)
            counts[found.kind] += 1
            if found.kind != RIGHT:
                print(f"{arch} {kernel.name}: {found.kind}: {found.why}", flush=True)
        rows.append((arch, counts))
    print(HEAD)
    for arch, counts in rows:
        print(line(arch, counts))
    return int(any(counts.total() != counts[RIGHT] for _, counts in rows))


if __name__ == "__main__":
    sys.exit(terminal.run(main))
