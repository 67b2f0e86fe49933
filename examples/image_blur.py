"""Blur and sharpen a photograph, and write the three pictures side by side as a PNG.

The picture is the portrait of Grace Hopper that matplotlib ships (or any file matplotlib reads).
The blur is a Gaussian, applied along rows and then along columns as a sum of shifted pictures; the
sharpened picture is the original plus what the blur took away. The result is compared with the
same filter written in numpy, in float64.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from unbound import terminal

if __name__ == "__main__":  # also while the rest is imported
    terminal.end_interrupts_in_one_line()

import numpy as np
import numpy.typing as npt

import tensor as xp
from drivers.base.errors import DeviceError
from drivers.world.owned import new_file

TOLERANCE = 1e-5
REACH_SIGMAS = 3
GAP_PIXELS = 8

Picture = npt.NDArray[Any]


def weights(sigma: float) -> list[float]:
    """A Gaussian at whole pixels out to three sigma, with sum 1."""
    reach = max(1, round(REACH_SIGMAS * sigma))
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return [float(weight) for weight in bell / bell.sum()]


def along(picture: Any, axis: int, bell: list[float]) -> Any:
    """The weighted sum of `picture` shifted along `axis`; the border pixels repeat outside."""
    reach, size = len(bell) // 2, picture.shape[axis]
    first, last = ((slice(None),) * axis + (cut,) for cut in (slice(0, 1), slice(size - 1, size)))
    padded = xp.concat([picture[first]] * reach + [picture] + [picture[last]] * reach, axis=axis)
    padded = padded.realize()
    shifted = (padded[(slice(None),) * axis + (slice(i, i + size),)] for i in range(len(bell)))
    return sum(part * weight for part, weight in zip(shifted, bell, strict=True))


def filtered(picture: Picture, sigma: float, amount: float) -> tuple[Picture, Picture]:
    """The blurred and the sharpened picture, computed on the default device."""
    image, bell = xp.asarray(picture), weights(sigma)
    blurred = along(along(image, 0, bell).realize(), 1, bell).realize()
    sharpened = xp.clip(image + amount * (image - blurred), 0.0, 1.0)
    return blurred.numpy(), sharpened.numpy()


def filtered_numpy(picture: Picture, sigma: float, amount: float) -> tuple[Picture, Picture]:
    """The same in numpy and float64, as a convolution of every row and every column."""
    bell = np.asarray(weights(sigma))
    image = blurred = picture.astype(np.float64)
    for axis in (0, 1):
        width = [(len(bell) // 2,) * 2 if a == axis else (0, 0) for a in range(image.ndim)]
        blurred = np.apply_along_axis(
            np.convolve, axis, np.pad(blurred, width, mode="edge"), bell, mode="valid"
        )
    return blurred, np.clip(image + amount * (image - blurred), 0.0, 1.0)


def load(path: Path | None) -> Picture:
    """Height x width x 3, float32 in 0..1."""
    import matplotlib.image
    from matplotlib import cbook

    source = str(path) if path else cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    picture: Picture = np.asarray(matplotlib.image.imread(source))[..., :3]
    scale = 255.0 if picture.dtype == np.uint8 else 1.0
    return np.ascontiguousarray(picture / np.float32(scale), dtype=np.float32)


def main(argv: list[str] | None = None) -> int:
    """Write the PNG; 1 when numpy computes something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, nargs="?", help="default: the one in matplotlib")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("blur.png"),
        metavar="FILE.png",
        help="original, blurred, sharpened, side by side (default blur.png)",
    )
    parser.add_argument("--sigma", type=float, default=3.0, help="in pixels (default 3)")
    parser.add_argument("--amount", type=float, default=1.5, help="of sharpening (default 1.5)")
    args = parser.parse_args(argv)
    if not 0.1 <= args.sigma <= 50:
        parser.error("--sigma must be between 0.1 and 50 pixels")
    import matplotlib.image

    picture = load(args.picture)
    results = filtered(picture, args.sigma, args.amount)
    expected = filtered_numpy(picture, args.sigma, args.amount)
    worst = max(float(np.max(np.abs(a - b))) for a, b in zip(results, expected, strict=True))
    gap = np.ones((picture.shape[0], GAP_PIXELS, 3), dtype=np.float32)
    sheet = np.concatenate([picture, gap, results[0], gap, results[1]], axis=1)
    with new_file(str(args.out)) as file:  # never through a link
        kind = args.out.suffix.removeprefix(".") or "png"
        matplotlib.image.imsave(file, np.clip(sheet, 0.0, 1.0), format=kind)
    print(f"{picture.shape[1]} x {picture.shape[0]} pixels, sigma {args.sigma:g}: wrote {args.out}")
    print(f"largest difference from numpy in float64: {worst:.1e} ({TOLERANCE:.0e} allowed)")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    terminal.run(main, DeviceError)
