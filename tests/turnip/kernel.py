"""What a WGSL kernel of the Turnip witness is: its text, what it reads, and how it is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Expected = Callable[["Kernel"], Words]
"""What the output must be, by what it is: for kernels whose result is the GPU's choice."""
DEFAULT_WORDS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """`o[...]` from `a[...]` and `b[...]`, each an array of the named type.

    In the text, `i` is the invocation's place in the grid along x, `g` its whole place, `l` its
    place in the group, `w` the group's, `n` how many groups there are.
    """

    body: str
    head: str = ""
    """Above the entry point: functions, structures, shared memory."""
    a: str = "f32"
    b: str = "f32"
    o: str = "f32"
    ranges: tuple[float, float] = (-100.0, 100.0)
    """Of floats in a and b; integers are of all 32 bits."""
    block: tuple[int, int, int] = (64, 1, 1)
    groups: tuple[int, int, int] = (4, 1, 1)
    words: int = DEFAULT_WORDS
    """32-bit words in a, b and o."""
    out_words: int = 0
    """In o, where that is another number."""
    times: int = 1
    """Dispatches, each of which sees what the one before has written."""
    close: float = 0.0
    """Largest relative difference; 0: the same bits."""
    needs: tuple[str, ...] = ()
    """Features of WebGPU."""
    indirect: bool = False
    """The number of groups is read from memory by the GPU."""
    texture: str = ""
    """The format of a texture `t` that is bound, too, with a sampler `s`; empty: none."""
    side: int = 8
    """Of the texture, in texels. Turnip tiles those of 16 and more."""
    layers: int = 0
    """Of the texture; 0: it is no array."""
    stored: bool = False
    """The texture is a storage texture."""
    filtered: bool = False
    """The sampler interpolates."""
    extensions: tuple[str, ...] = ()
    expected: Expected | None = None

    @property
    def output_words(self) -> int:
        """How many words o has."""
        return self.out_words or self.words

    def text(self) -> str:
        """The whole shader."""
        size = ", ".join(str(one) for one in self.block)
        lines = [f"enable {one};" for one in self.extensions]
        lines += [
            f"@group(0) @binding(0) var<storage, read> a: array<{self.a}>;",
            f"@group(0) @binding(1) var<storage, read> b: array<{self.b}>;",
            f"@group(0) @binding(2) var<storage, read_write> o: array<{self.o}>;",
            *self._texture_lines(),
            self.head,
            f"@compute @workgroup_size({size})",
            "fn main(@builtin(global_invocation_id) g: vec3<u32>,",
            "    @builtin(local_invocation_id) l: vec3<u32>,",
            "    @builtin(workgroup_id) w: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>,",
            "    @builtin(local_invocation_index) li: u32) {",
            "let i = g.x;",
            self.body, "}",
        ]  # fmt: skip
        return "\n".join(lines)

    def _texture_lines(self) -> list[str]:
        if not self.texture:
            return []
        kind = "u32" if self.texture.endswith("uint") else "f32"
        image = f"texture_2d_array<{kind}>" if self.layers else f"texture_2d<{kind}>"
        if self.stored:
            image = f"texture_storage_2d<{self.texture}, read_write>"
        lines = [f"@group(0) @binding(3) var t: {image};"]
        return lines if self.stored else [*lines, "@group(0) @binding(4) var s: sampler;"]

    def inputs(self, seed: int) -> tuple[Words, Words]:
        """a and b, as words: the same for the same seed."""
        made = np.random.default_rng(seed)
        return self._words(self.a, made), self._words(self.b, made)

    @property
    def _channels(self) -> int:
        return 4 if "rgba" in self.texture else 2 if "rg" in self.texture else 1

    def texels(self, seed: int) -> NDArray[np.generic]:
        """What the texture has at first."""
        made, count = np.random.default_rng(seed + 1), self.side * self.side * self._channels
        count *= max(self.layers, 1)
        if self.texture.endswith("32float"):
            return made.uniform(-4, 4, count).astype(np.float32)
        if self.texture.endswith("8unorm"):
            return made.integers(0, 256, count).astype(np.uint8)
        return made.integers(0, 1 << 32, count, dtype=np.uint32)

    def _words(self, kind: str, made: np.random.Generator) -> Words:
        if "f32" in kind:
            return made.uniform(*self.ranges, self.words).astype(np.float32).view(np.uint32)
        if "f16" in kind:
            return made.uniform(*self.ranges, 2 * self.words).astype(np.float16).view(np.uint32)
        return made.integers(0, 1 << 32, self.words, dtype=np.uint32)


Kernels = Mapping[str, Kernel]
