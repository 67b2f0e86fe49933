"""A kernel source tree that data is made from, and which of its files were read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

AMD = "drivers/gpu/drm/amd"
RELEASE = "Linux 6.12"


class Unreadable(Exception):
    """An input is not there, or does not say what a generator asks of it."""


@dataclass
class Source:
    """A kernel source tree; remembers the sha256 of every file that was read."""

    root: Path
    digests: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str:
        """The text of one file, its name counted from the tree's root. Raises: Unreadable."""
        try:
            content = (self.root / path).read_bytes()
        except OSError as error:
            raise Unreadable(
                f"{path}: {error.strerror}: is {self.root} a kernel source?"
            ) from error
        self.digests[path] = hashlib.sha256(content).hexdigest()
        return content.decode("latin-1")


Make = Callable[[Source, str], str]
"""Makes the text of one output, by its path in the repository."""


@dataclass(frozen=True)
class Generator:
    """A program and the files that it makes."""

    name: str
    outputs: Mapping[str, object]
    make: Make

    def command(self, output: str) -> str:
        """The command line that makes one output."""
        return f"python -m generators.{self.name} LINUX {output}"


def head(generator: str, output: str, source: Source) -> str:
    """The first lines of a text file: who made it, and what it was made from."""
    lines = [f"# made by: python -m generators.{generator} LINUX {output}"]
    lines += [f"# src: {RELEASE}, {path}, sha256 {digest}" for path, digest in
              source.digests.items()]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def json_head(generator: str, output: str, source: Source) -> dict[str, object]:
    """The first members of a JSON file, which has no comments."""
    return {
        "made by": f"python -m generators.{generator} LINUX {output}",
        "sha256": {f"{RELEASE}, {path}": digest for path, digest in source.digests.items()},
    }
