"""`python -m drivers.firmware`: what it says of machines with everything, something, nothing."""

from __future__ import annotations

import json

import pytest

from drivers.firmware.__main__ import command, main
from drivers.firmware.manifest import shipped_manifest
from tests.fake_machine import FakeMachine
from tests.support import check

DEBIAN = {"/etc/os-release": b'PRETTY_NAME="Debian"\nID=debian\n'}
DERIVED = {"/etc/os-release": b'ID=pop\nID_LIKE="ubuntu debian"\n'}
SYSTEM = "/lib/firmware/amdgpu"


def test_a_machine_without_firmware() -> None:
    text, status = main([], FakeMachine(DEBIAN), {})
    check(status == 0, "looking is no error")
    for arch in shipped_manifest("amd").chips:
        needed = len(shipped_manifest("amd").needs(arch))
        check(f"{arch} (" in text and f": 0 of {needed} files" in text, f"{arch} in {text}")
    for name in shipped_manifest("amd").files:
        check(f"\n  {name} " in text, f"{name} is not listed")
    check("Install firmware-amd-graphics (debian)" in text, text)


@pytest.mark.parametrize(
    ("files", "said"),
    [(DERIVED, "Install linux-firmware (ubuntu)"), ({}, "amd-gpu-firmware (fedora)")],
)
def test_other_distributions(files: dict[str, bytes], said: str) -> None:
    check(said in main(["gfx942"], FakeMachine(files), {})[0], said)


def test_wrong_and_named_files() -> None:
    path, own = f"{SYSTEM}/sdma_4_4_2.bin", "/home/me/gc_9_4_3_rlc.bin"
    world = FakeMachine({**DEBIAN, path: b"other", own: b"mine"})
    text, status = main(["gfx942", "--json"], world, {"UNBOUND_FIRMWARE_FILES": own})
    check(status == 1, "a chip that was asked for lacks files")
    chip = json.loads(text)["chips"][0]
    states = {line["name"]: line["state"] for line in chip["files"]}
    check(states["sdma_4_4_2.bin"] == "wrong", str(states))
    check(states["gc_9_4_3_rlc.bin"] == "unknown", str(states))
    check(states["psp_13_0_6_sos.bin"] == "missing", str(states))
    wrong = next(line for line in chip["files"] if line["state"] == "wrong")
    check(path in wrong["text"] and "5 bytes" in wrong["text"], wrong["text"])
    check(not chip["complete"], "complete")


def test_unbound_firmware_is_looked_into() -> None:
    text, _ = main(["gfx942"], FakeMachine(DEBIAN), {"UNBOUND_FIRMWARE": "/opt/fw"})
    check("/lib/firmware/amdgpu, /opt/fw/amdgpu, /opt/fw" in text, text)


def test_errors_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNBOUND_FIRMWARE_FILES", "toast.bin")
    check(command(["gfx942"]) == 1, "status")
    said = capsys.readouterr()
    check("absolute path" in said.err and said.out == "", f"{said}")
    with pytest.raises(SystemExit, match="2"):
        main(["gfx803"], FakeMachine(DEBIAN), {})
