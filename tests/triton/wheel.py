"""Triton's wheel, from the package index, in a folder outside the tree."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.debian import CannotRun, command
from tests.witness.roots import cache_folder, pip

VERSION: Final = "3.9.0"
HASHES: Final = {
    "cp311": "1622118a038b0c6e16fa4a0305da62c8b3c15904ee1cc4d4e65846a25969e41e",
}
"""sha256 of the release's wheels for x86-64 Linux, by version of Python."""
_LIMIT_S: Final = 600


def packages() -> Path:
    """The folder to import triton from, fetched once. Raises: CannotRun."""
    folder = cache_folder() / f"triton-{VERSION}"
    if folder.is_dir():
        return folder
    tag = f"cp3{sys.version_info[1]}"
    if tag not in HASHES:
        raise CannotRun(f"no hash of Triton's wheel for {tag}: run it with Python 3.11")
    print(f"fetching Triton {VERSION} from the package index", file=sys.stderr, flush=True)
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        wanted = fresh / "wanted"
        wanted.write_text(f"triton=={VERSION} --hash=sha256:{HASHES[tag]}\n")
        words = ["install", "--quiet", "--no-deps", "--require-hashes", "--target", str(fresh)]
        command([*pip(), *words, "--requirement", str(wanted)], limit_s=_LIMIT_S)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder
