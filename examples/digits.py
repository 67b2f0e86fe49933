"""Classify scikit-learn's 1,797 handwritten digits by their k nearest neighbours.

A random half is the memory, the other half is held out and classified: all distances at once as a
matrix product, a stable sort, a vote. The pixels are whole numbers 0..16, so every distance is
exact in float32, and the predictions have to equal those of the same computation in numpy.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from unbound import terminal

if __name__ == "__main__":  # also while the rest is imported
    terminal.end_interrupts_in_one_line()

import numpy as np
import numpy.typing as npt

import tensor as xp
from drivers.base.errors import DeviceError

CLASSES = 10
LEAST_ACCURACY = 0.97

Pixels = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def load(seed: int) -> tuple[Pixels, Labels, Pixels, Labels]:
    """Images and labels of the known half, then of the held-out half."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    known, held_out = np.array_split(order, 2)
    pixels, labels = images.astype(np.float32), labels.astype(np.int64)
    return pixels[known], labels[known], pixels[held_out], labels[held_out]


def classify(known: Any, labels: Any, unknown: Any, k: int) -> Any:
    """Predicted labels of `unknown`, as one lazy tensor."""
    squares = xp.sum(known * known, axis=1)
    distances = squares - 2 * (unknown @ known.T)  # + |unknown|^2, the same along a row
    nearest = xp.argsort(distances, axis=1, stable=True)[:, :k]
    votes = xp.expand_dims(xp.take(labels, nearest), axis=2) == xp.arange(CLASSES)
    return xp.argmax(xp.sum(votes, axis=1, dtype=xp.int64), axis=1)


def classify_numpy(known: Pixels, labels: Labels, unknown: Pixels, k: int) -> Labels:
    """The same steps in numpy."""
    squares = np.sum(known * known, axis=1)
    distances = squares - 2 * (unknown @ known.T)
    nearest = np.argsort(distances, axis=1, stable=True)[:, :k]
    votes = np.take(labels, nearest)[:, :, None] == np.arange(CLASSES)
    predicted: Labels = np.argmax(np.sum(votes, axis=1, dtype=np.int64), axis=1)
    return predicted


def main(argv: list[str] | None = None) -> int:
    """Print the accuracy; 1 when it is too low or numpy predicts something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", type=int, default=3, help="neighbours that vote (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the random halves (default 0)")
    args = parser.parse_args(argv)
    known, labels, unknown, truth = load(args.seed)
    start_s = time.perf_counter()
    held_out = xp.asarray(unknown)
    predicted = classify(xp.asarray(known), xp.asarray(labels), held_out, args.k).numpy()
    seconds = time.perf_counter() - start_s
    by_numpy = classify_numpy(known, labels, unknown, args.k)
    accuracy = float(np.mean(predicted == truth))
    different = int(np.sum(predicted != by_numpy))
    print(
        f"{len(labels)} digits known, {len(truth)} classified in {seconds:.2f} s "
        f"(compilation included) on {held_out.device}"
    )
    print(f"accuracy on the held-out half: {accuracy:.2%} (at least {LEAST_ACCURACY:.0%} expected)")
    print(f"predictions that differ from numpy's: {different}")
    return 0 if accuracy >= LEAST_ACCURACY and not different else 1


if __name__ == "__main__":
    terminal.run(main, DeviceError)
