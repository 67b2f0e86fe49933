"""A program over RM and UVM is recorded on a board and played back when the board is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from boards.front import Front, Setup, environ_of, front_of
from boards.nv.hardware import NvOptions
from boards.nv.machine import open_nv_board
from compilers.nv import libraries, nvrtc
from drivers.base.errors import NotFound
from drivers.nv.nvk import channel, escapes, uvm
from drivers.nv.nvk.controls import GET_GID_INFO, Gid
from drivers.nv.nvk.escapes import CardInfo, CardInfos, RmControl, RmMapMemory, RmUnmapMemory
from drivers.nv.recorded import NvIdentifiers
from tests.boards import recordings
from tests.boards.test_recording import command, mapped, words
from tests.support import check

UUID = bytes.fromhex("0a5ecc0ffee0ddba11c0debabe5eed42")
BUS, GPU_ID = 0x7A, 0x5E7A00
MOST_BYTES = 700_000
"""Structs of UVM that map memory have 9264 bytes; packed, a file has a hundredth of this."""


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        libraries.find(nvrtc.NAMES)
    except NotFound:
        pytest.skip("no nvrtc: make nv")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(recordings.PROGRAM.replace('"AMD"', '"NV"'))
    return path


def front(*, driver: int = 580, late: bool = True) -> Front:
    """A board whose GPU has a UUID and a place of its own."""
    board: Any = open_nv_board("ga102", options=NvOptions(driver=driver, late=late))
    gpu = board.gpus[0]
    gpu.uuid, gpu.bus, gpu.gpu_id = UUID, BUS, GPU_ID
    return front_of(board, environ_of(Setup("ga102")))


@pytest.mark.parametrize("driver", [550, 590])
def test_it_replays_without_the_board(driver: int, program: Path) -> None:
    data = recordings.record_on(front(driver=driver), program)
    check(len(data) < MOST_BYTES, f"{len(data)} bytes")
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")
    check(world.count == data.count(b"\n") - 1 and world.count > 150, f"{world.count} operations")


def test_graphs_replay(program: Path) -> None:
    program.write_text(recordings.GRAPHS.replace('"AMD"', '"NV"'))
    data = recordings.record_on(front(), program)
    status, world = recordings.replay(data, program)
    check(status == 0 and world.differ == 0, f"{status}, {world.differences}")


def test_it_holds_nothing_of_the_machine(program: Path) -> None:
    data = recordings.record_on(front(), program)
    check(UUID.hex().encode() not in data, "the UUID")
    check(GPU_ID.to_bytes(4, "little").hex().encode() not in data, "RM's number of the GPU")
    spans = mapped()
    suspects = {word for word in words(data) if 1 << 32 <= word < 1 << 47}
    own = [hex(va) for va in suspects if any(first <= va < last for first, last in spans)]
    check(not own, f"addresses of this process: {own}")


def test_a_driver_that_asks_otherwise_is_reported(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = recordings.record_on(front(), program)
    with monkeypatch.context() as patch:
        patch.setattr(channel, "SUBCONTEXT_ASYNC", 0)  # in parameters behind a pointer
        _, world = recordings.replay(data, program)
        check("memory 0 at" in str(world.differences), str(world.differences))
    monkeypatch.setattr(channel, "USERD_BYTES", 8192)
    status, world = recordings.replay(data, program)
    check(status is None and world.differ > 0, str(world.differences))


def test_the_commands(tmp_path: Path) -> None:
    file = str(tmp_path / "add.jsonl.gz")
    made = command("drivers.record", "-o", file, "--board", "ga102", "examples/add.py")
    check(made.returncode == 0 and "on NV: [1. 2." in made.stdout, made.stderr)
    played = command("drivers.replay", file)
    check(played.returncode == 0 and ": 0 differences" in played.stdout, played.stdout)
    refused = command("drivers.record", "-o", file, "--board", "ga103", "examples/add.py")
    check(refused.returncode == 2 and "no board 'ga103'" in refused.stderr, refused.stderr)


# Identifiers, struct by struct


def call(known: NvIdentifiers, request: int, sent: bytes, answer: bytes) -> tuple[bytes, bytes]:
    """(what the machine gets, what the driver sees) of one ioctl."""
    argument = bytearray(sent)
    known.reveal(request, argument, memoryview(bytearray()))
    given = bytes(argument)
    argument[:] = answer or given
    known.hide(request, argument, memoryview(bytearray()))
    return given, bytes(argument)


def test_cards_have_no_place_and_no_physical_address() -> None:
    known = NvIdentifiers()
    card = CardInfo(
        valid=1, domain=3, bus=BUS, slot=5, function=1, device_id=0x2204, gpu_id=GPU_ID,
        interrupt_line=77, reg_address=0xF600_0000, fb_address=0x38_0000_0000, fb_size=1 << 30,
        minor_number=2,
    )  # fmt: skip
    raw = bytes(card.raw).ljust(CardInfos.SIZE, b"\0")
    _, seen = call(known, escapes.CARD_INFO.request, bytes(CardInfos.SIZE), raw)
    found = CardInfo.of(seen[: CardInfo.SIZE])
    left = (found.domain, found.slot, found.function, found.interrupt_line, found.reg_address,
            found.fb_address)  # fmt: skip
    check(left == (0,) * 6 and (found.bus, found.gpu_id) == (1, 0x100), repr(found))
    kept = (found.valid, found.device_id, found.fb_size, found.minor_number)
    check(kept == (1, 0x2204, 1 << 30, 2), repr(found))


def test_uuids_and_tokens_come_back_to_the_machine() -> None:
    known = NvIdentifiers()
    control = RmControl(cmd=GET_GID_INFO.cmd, params=1, params_size=Gid.SIZE)
    params = bytearray(Gid(flags=2, length=16, data=UUID.ljust(256, b"\0")).raw)
    known.hide(escapes.RM_CONTROL.request, bytearray(control.raw), memoryview(params))
    shown = Gid.of(bytes(params)).data[:16]
    check(shown != UUID and any(shown), shown.hex())
    for request in (uvm.REGISTER_GPU, uvm.REGISTER_GPU_VASPACE, uvm.UNREGISTER_GPU,
                    uvm.REGISTER_CHANNEL, uvm.UNREGISTER_CHANNEL, uvm.UNMAP_EXTERNAL,
                    uvm.MAP_EXTERNAL_ALLOCATION):  # fmt: skip
        given, seen = call(known, request.request, bytes(request.args(gpu_uuid=shown).raw), b"")
        check(UUID in given and UUID not in seen and shown in seen, request.name)
    peers = bytes(uvm.EnablePeerAccess(gpu_uuid_a=shown, gpu_uuid_b=shown).raw)
    given, seen = call(known, uvm.ENABLE_PEER_ACCESS.request, peers, b"")
    check(given.count(UUID) == 2 and seen.count(shown) == 2, "two UUIDs")
    token = 0xFFFF_8881_2345_6000
    blank = bytes(RmMapMemory().raw)
    answer = bytes(RmMapMemory(p_linear_address=token).raw)
    _, seen = call(known, escapes.RM_MAP_MEMORY.request, blank, answer)
    number = RmMapMemory.of(seen).p_linear_address
    check(0 < number < 1 << 20, hex(number))
    sent = bytes(RmUnmapMemory(p_linear_address=number).raw)
    given, _ = call(known, escapes.RM_UNMAP_MEMORY.request, sent, b"")
    check(RmUnmapMemory.of(given).p_linear_address == token, given.hex())
