"""A network of ResNet-18's shape with random weights: inference in numpy, torch and this layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.context import Array

SIDE, CLASSES, WIDTHS, EPS = 224, 1000, (64, 128, 256, 512), 1e-5
PARTS = {"mean": (-0.1, 0.1), "spread": (0.5, 1.5), "scale": (0.8, 1.2), "shift": (-0.1, 0.1)}
"""Of a batch norm, and between what numbers theirs are."""


class Ops(Protocol):
    """What a side brings besides arithmetic on its arrays. Windows are square."""

    def conv2d(self, x: Any, weight: Any, stride: int, padding: int) -> Any: ...
    def batch_norm(self, x: Any, mean: Any, spread: Any, scale: Any, shift: Any) -> Any: ...
    def max_pool2d(self, x: Any, size: int, stride: int, padding: int) -> Any: ...
    def relu(self, x: Any) -> Any: ...
    def mean2d(self, x: Any) -> Any: ...


def layers() -> list[tuple[str, int, int, int]]:
    """Convolutions as (name, channels out, channels in, size of the kernel)."""
    found, channels = [("stem", WIDTHS[0], 3, 7)], WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        for block in range(2):
            found.append((f"{stage}.{block}.a", width, channels, 3))
            found.append((f"{stage}.{block}.b", width, width, 3))
            if channels != width:
                found.append((f"{stage}.{block}.down", width, channels, 1))
            channels = width
    return found


def weights(seed: int = 0) -> dict[str, Array]:
    """Weights, and for each convolution a mean, spread, scale and shift for each channel."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, out, inner, size in layers():
        shape = (out, inner, size, size)
        found[name] = rng.standard_normal(shape) * np.sqrt(2 / (inner * size * size))
        for part, (low, high) in PARTS.items():
            found[f"{name}.{part}"] = rng.uniform(low, high, (out, 1, 1))
    found["fc"] = rng.standard_normal((WIDTHS[-1], CLASSES)) * 0.05
    found["fc.shift"] = rng.uniform(-0.1, 0.1, CLASSES)
    return {name: array.astype(np.float32) for name, array in found.items()}


def images(batch: int) -> Array:
    """The input: the same numbers every time."""
    return np.random.default_rng(1).standard_normal((batch, 3, SIDE, SIDE), dtype=np.float32)


def forward(ops: Ops, w: Mapping[str, Any], x: Any) -> Any:
    """Class scores of a batch of images."""

    def conv(name: str, x: Any, stride: int, padding: int) -> Any:
        parts = (w[f"{name}.{part}"] for part in PARTS)
        return ops.batch_norm(ops.conv2d(x, w[name], stride, padding), *parts)

    def block(name: str, x: Any, stride: int) -> Any:
        y = conv(f"{name}.b", ops.relu(conv(f"{name}.a", x, stride, 1)), 1, 1)
        if f"{name}.down" in w:
            x = conv(f"{name}.down", x, stride, 0)
        return ops.relu(x + y)

    x = ops.max_pool2d(ops.relu(conv("stem", x, 2, 3)), 3, 2, 1)
    for stage in range(len(WIDTHS)):
        x = block(f"{stage}.0", x, 2 if stage else 1)
        x = block(f"{stage}.1", x, 1)
    return ops.mean2d(x) @ w["fc"] + w["fc.shift"]


class Ours:
    """The tensor layer, as its users write it."""

    def __init__(self, xp: Any) -> None:
        self.xp, self.relu = xp, xp.relu

    def conv2d(self, x: Any, weight: Any, stride: int, padding: int) -> Any:
        return self.xp.conv2d(x, weight, stride=stride, padding=padding)

    def batch_norm(self, x: Any, mean: Any, spread: Any, scale: Any, shift: Any) -> Any:
        return (x - mean) / self.xp.sqrt(spread + EPS) * scale + shift

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return self.xp.max_pool2d(x, size, stride=stride, padding=padding)

    def mean2d(self, x: Any) -> Any:
        return self.xp.mean(x, axis=(2, 3))


class Numpy:
    """Windows as views, and one matrix product for each convolution."""

    def conv2d(self, x: Array, weight: Array, stride: int, padding: int) -> Array:
        seen = self._windows(x, weight.shape[2], stride, padding, 0.0)
        return np.moveaxis(np.tensordot(seen, weight, ((1, 4, 5), (1, 2, 3))), 3, 1)

    def batch_norm(self, x: Array, *parts: Array) -> Array:
        mean, spread, scale, shift = parts
        factor = scale / np.sqrt(spread + np.float32(EPS))
        return x * factor + (shift - mean * factor)

    def max_pool2d(self, x: Array, size: int, stride: int, padding: int) -> Array:
        best: Array = self._windows(x, size, stride, padding, -np.inf).max((4, 5))
        return best

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def mean2d(self, x: Array) -> Array:
        return np.asarray(x.mean((2, 3)))

    def _windows(self, x: Array, size: int, stride: int, padding: int, fill: float) -> Array:
        around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        x = np.pad(x, around, constant_values=fill)
        return sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]


class Torch:
    """torch's own operations."""

    def __init__(self, torch: Any) -> None:
        self.functional, self.relu = torch.nn.functional, torch.relu

    def conv2d(self, x: Any, weight: Any, stride: int, padding: int) -> Any:
        return self.functional.conv2d(x, weight, None, stride, padding)

    def batch_norm(self, x: Any, *parts: Any) -> Any:
        mean, spread, scale, shift = (part.reshape(-1) for part in parts)
        return self.functional.batch_norm(x, mean, spread, scale, shift, False, 0.0, EPS)

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return self.functional.max_pool2d(x, size, stride, padding)

    def mean2d(self, x: Any) -> Any:
        return x.mean((2, 3))


def multiplications(batch: int) -> int:
    """Of one forward pass, by the shapes."""
    side, total = SIDE // 2, 0
    for name, out, inner, size in layers():
        if name != "stem":
            side = SIDE // 4 >> int(name[0])
        total += side * side * out * inner * size * size
    return batch * (total + WIDTHS[-1] * CLASSES)


def ours(xp: Any, batch: int, device: str | None = None) -> Callable[[], Any]:
    """A forward pass of ours, not yet computed."""
    held = {name: xp.asarray(w, device=device).realize() for name, w in weights().items()}
    x = xp.asarray(images(batch), device=device).realize()
    return lambda: forward(Ours(xp), held, x)


def numpys(batch: int) -> Callable[[], Array]:
    """A forward pass of numpy's."""
    held, x = weights(), images(batch)
    return lambda: np.asarray(forward(Numpy(), held, x))


def torchs(torch: Any, batch: int) -> Callable[[], Any]:
    """A forward pass of torch's, without gradients."""
    held = {name: torch.from_numpy(w) for name, w in weights().items()}
    x = torch.from_numpy(images(batch))

    def run() -> Any:
        with torch.inference_mode():
            return forward(Torch(torch), held, x)

    return run
