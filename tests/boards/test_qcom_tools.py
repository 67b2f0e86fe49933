"""The probe, the doctor's rows and the decoder of an Adreno, on boards."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from drivers.qcom import doctor
from drivers.qcom.probe import probe
from queues import decode
from queues.qcom.chips import chip_named
from queues.qcom.words import setup
from tests.qcom_devices import QcomMachine, opened
from tests.support import check


@pytest.mark.parametrize(("chip", "iface"), [("a630", "KGSL"), ("a660", "MSM"), ("x1-85", "MSM")])
def test_the_probe_tests_a_board(chip: str, iface: str) -> None:
    text, status = probe(["--board", chip, "--iface", iface, "--smoke", "--json"])
    facts = json.loads(text)
    check(status == 0 and facts["board"]["violations"] == [], text)
    check([node["way"] for node in facts["nodes"]] == [iface], text)
    check(len(facts["smoke"]) > 6 and all(one["ok"] for one in facts["smoke"]), text)
    shown, status = probe(["--board", chip, "--iface", iface])
    check(status == 0 and "may be opened" in shown, shown)


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_the_doctor_s_rows(iface: str) -> None:
    chip = {"KGSL": "a630", "MSM": "a740"}[iface]
    lines = [*doctor.rows(QcomMachine(chip, iface), {})]
    check(lines[0].state == "ok" and "Adreno" in lines[0].text, str(lines))
    check((len(lines) == 2) == (iface == "MSM"), str(lines))


def test_the_way_that_is_there_is_found() -> None:
    """QCOM_IFACE is not needed: KGSL first, then msm."""
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "") as device:
        check(device.iface.name == "MSM", device.iface.name)


def test_a_stream_is_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, path = setup(chip_named("a740")), tmp_path / "stream"
    path.write_bytes(struct.pack(f"<{len(words)}I", *words))
    check(decode.run([str(path), "--qcom", "--chip", "a740"]) == 0)
    shown = capsys.readouterr().out
    check("SP_CHICKEN_BITS = 0x10001400" in shown and "CACHE_INVALIDATE7" in shown, shown)
