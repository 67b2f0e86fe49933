"""The examples do what they print, on the real data that they name."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]


def test_add(capsys):
    runpy.run_path(str(ROOT / "examples" / "add.py"), run_name="__main__")
    check("[1. 2. 3. 4. 5. 6. 7. 8.]" in capsys.readouterr().out)


@pytest.mark.host_memory
def test_torch_shares_one_address_both_ways(capsys):
    pytest.importorskip("torch", reason="torch is not installed")
    from examples import share_torch

    np.testing.assert_equal(share_torch.main([]), 0)
    addresses, first, second, column = capsys.readouterr().out.splitlines()
    found = re.findall("0x[0-9a-f]+", addresses)
    check(len(found) == 3 and len(set(found)) == 1, addresses)
    check("torch wrote 100: tensor 100.0, torch again 100.0" in first, first)
    check("the other wrote 200: tensor 200.0, torch 200.0" in second, second)
    check("[200.   5.   9.], its sum 214.0" in column, column)


def test_torch_of_an_unknown_kind(capsys):
    from examples import share_torch

    np.testing.assert_equal(share_torch.main(["rocm"]), 2)
    check("none of cpu, cuda, mps" in capsys.readouterr().out)


def test_digits_agree_with_scikit_learn_and_with_numpy(capsys):
    neighbors = pytest.importorskip("sklearn.neighbors")
    from examples import digits

    np.testing.assert_equal(digits.main([]), 0)
    check("differ from numpy's: 0" in capsys.readouterr().out)
    known, labels, held_out, truth = digits.load(seed=1)
    by_numpy = digits.classify_numpy(known, labels, held_out, 1)
    theirs = neighbors.KNeighborsClassifier(1, algorithm="brute").fit(known, labels)
    np.testing.assert_array_equal(by_numpy, theirs.predict(held_out))
    check(np.mean(by_numpy == truth) >= 0.97)


def test_digits_split_every_digit_once():
    pytest.importorskip("sklearn")
    from examples import digits

    known, labels, held_out, truth = digits.load(seed=0)
    np.testing.assert_equal(len(known) + len(held_out), 1797)
    np.testing.assert_equal((len(labels), len(truth)), (899, 898))


@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.0])
def test_blur_is_the_gaussian_of_scipy(sigma):
    ndimage = pytest.importorskip("scipy.ndimage")
    from examples import image_blur

    picture = np.random.default_rng(7).random((40, 31, 3), dtype=np.float32)
    reach = len(image_blur.weights(sigma)) // 2
    expected = ndimage.gaussian_filter(
        picture.astype(np.float64), (sigma, sigma, 0), mode="nearest", radius=(reach, reach, 0)
    )
    blurred, sharpened = image_blur.filtered(picture, sigma, 1.5)
    np.testing.assert_allclose(blurred, expected, atol=1e-6)
    np.testing.assert_allclose(
        sharpened, np.clip(picture + 1.5 * (picture - expected), 0, 1), atol=1e-5
    )


def test_image_is_written(tmp_path, capsys):
    image = pytest.importorskip("matplotlib.image")
    from examples import image_blur

    path = tmp_path / "out.png"
    np.testing.assert_equal(image_blur.main(["--out", str(path)]), 0)
    check("600 pixels" in capsys.readouterr().out)
    sheet = image.imread(path)
    np.testing.assert_equal(sheet.shape[:2], (600, 3 * 512 + 2 * image_blur.GAP_PIXELS))
    roughness = [
        float(np.mean(np.abs(np.diff(part, axis=1))))
        for part in (sheet[:, :512, :3], sheet[:, 520:1032, :3], sheet[:, 1040:, :3])
    ]
    check(roughness[1] < roughness[0] < roughness[2], f"original, blurred, sharpened: {roughness}")


@pytest.mark.parametrize("name", ["digits", "image_blur"])
def test_help(name, capsys):
    module = __import__(f"examples.{name}", fromlist=["main"])
    with pytest.raises(SystemExit) as stop:
        module.main(["--help"])
    np.testing.assert_equal(stop.value.code, 0)
    check("default" in capsys.readouterr().out)
