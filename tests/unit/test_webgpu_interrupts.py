"""Ctrl-C and lost answers at any place of a WebGPU wait: the error comes out, and work goes on."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from signal import SIGINT, SIGUSR1, raise_signal, signal

import numpy as np
import pytest

from drivers.base.errors import CompileError, DeviceError, Hang, Unsupported
from drivers.webgpu import readback
from drivers.webgpu.adapters import request
from drivers.webgpu.layout import Record
from drivers.webgpu.modules import builder
from drivers.webgpu.stream import Stream
from tests.contract.arrays import get, put, ramp
from tests.share import part
from tests.support import check
from tests.switching import switching_often
from tests.unit.test_webgpu_faults import COUNT, program
from tests.webgpu import LIBRARIES, need, webgpu
from tests.webgpu_watch import CALLBACK_WORD, REPORT, USERDATA_WORD, watched_world


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("library", LIBRARIES)
def test_ctrl_c_while_a_map_is_pending(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes later, to a callback that is still there, and changes nothing."""
    need(library)
    world, watch = watched_world(library)
    answers: list[int] = []
    answered = readback.Readback._answered

    def counted(own: readback.Readback, status: int, *rest: int) -> None:
        answers.append(status)
        answered(own, status, *rest)

    monkeypatch.setattr(readback.Readback, "_answered", counted)
    with webgpu(library, world) as device:
        a = put(device, ramp(COUNT))
        with monkeypatch.context() as change:
            change.setattr(device.link, "poll", interrupt)
            for _ in range(3):
                with pytest.raises(KeyboardInterrupt):
                    get(device, a)
        np.testing.assert_array_equal(get(device, a), ramp(COUNT))
        device.synchronize()
        check(len(answers) == 4, f"{answers}: each map is answered once")
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_map_that_is_not_answered_in_time_is_given_up(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webgpu(library) as device:
        a = put(device, ramp(COUNT))
        with monkeypatch.context() as change:
            change.setattr(readback, "PATIENCE_S", 0.01)
            change.setattr(device.link, "poll", int)
            with pytest.raises(Hang):
                get(device, a)
        np.testing.assert_array_equal(get(device, a), ramp(COUNT))


@pytest.mark.parametrize("library", LIBRARIES)
def test_ctrl_c_inside_a_callback_comes_out(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C cannot raise it: the next check does, and the lost answer is asked for again."""
    once, ended = [1], Stream._ended_2

    def lossy(own: Stream, status: int, position: int, *rest: int) -> None:
        if once:
            once.clear()
            raise_signal(SIGINT)
        ended(own, status, position, *rest)

    monkeypatch.setattr(Stream, "_ended_2", lossy)
    with webgpu(library) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel = program(device)
        device.launch(kernel, [a, b, c], 2)
        with pytest.raises(KeyboardInterrupt):
            device.synchronize()
        device.synchronize()
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_lost_answer_is_asked_for_again(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, ended = [1], Stream._ended_2

    def lossy(own: Stream, status: int, position: int, *rest: int) -> None:
        if lost:
            lost.clear()
        else:
            ended(own, status, position, *rest)

    monkeypatch.setattr(Stream, "_ended_2", lossy)
    with webgpu(library) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        device.launch(program(device), [a, b, c], 2)
        device.synchronize(10.0)
        check(not lost, "one was lost")


@pytest.mark.parametrize("library", LIBRARIES)
def test_commands_that_are_thrown_away_signal_nothing(library: str) -> None:
    """What waits for them fails, and the signal can be raised by later ones."""
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel, mark = program(device), device.new_signal()
        device.synchronize()
        watch.fail(REPORT, 0, "wgpuCommandEncoderFinish")
        work = device.compute_queue().exec(kernel, [a, b, c], (2, 1, 1)).signal(mark, 1)
        with pytest.raises(DeviceError, match="made up"):
            work.submit()
        with pytest.raises(DeviceError, match="thrown away"):
            device.copy_queue().wait(mark, 1).copy(a, c, 4 * COUNT).submit()
        check(mark.value == 0, f"{mark.value}")
        np.testing.assert_array_equal(get(device, a), ramp(COUNT))
        device.compute_queue().exec(kernel, [a, b, c], (2, 1, 1)).signal(mark, 1).submit()
        mark.wait(1, 5.0)
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_signal_handler_inside_the_driver_is_refused(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it touches anything: what it has interrupted goes on."""
    with webgpu(library) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel, refused, poll = program(device), [], device.link.poll
        source = "@compute @workgroup_size(1)\nfn k_x() {\n}\n"

        def handle(*_: object) -> None:
            for use in (
                lambda: device.launch(kernel, [a, b, c], 2), lambda: get(device, b),
                device.synchronize, device.close, lambda: builder(device.arch).check(source),
            ):  # fmt: skip
                try:
                    use()
                except Unsupported as error:
                    refused.append(error)

        def interrupted() -> None:
            raise_signal(SIGUSR1)
            poll()

        monkeypatch.setattr(device.link, "poll", interrupted)
        before = signal(SIGUSR1, handle)
        try:
            device.launch(kernel, [a, b, c], 2)
            np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
        finally:
            signal(SIGUSR1, before)
        check(len(refused) >= 5 and not len(refused) % 5, f"{refused}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_threads_compile_and_launch_side_by_side(library: str) -> None:
    """Each gets the errors of its own calls."""
    bad = "@compute @workgroup_size(1)\nfn k_x() {\nno_such_name = 1;\n}\n"
    rounds = part(400, 50)
    with switching_often(), webgpu(library) as device, ThreadPoolExecutor(2) as pool:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel = program(device)

        def launches() -> None:
            for _ in range(rounds):
                device.launch(kernel, [a, b, c], 2)
                device.synchronize()

        def compiles() -> None:
            for _ in range(rounds):
                with pytest.raises(CompileError):
                    builder(device.arch).check(bad)

        for task in [pool.submit(launches), pool.submit(compiles)]:
            task.result()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_request_is_answered_after_ctrl_c(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its callback is still there, and a later request has an answer of its own."""
    need(library)
    world, watch = watched_world(library)
    api, late = watch._api, []

    def keep(call: str, *_: int, info: Record) -> int:
        late.append(info.words)
        return 1

    with monkeypatch.context() as change:
        change.setattr(api, "ask", keep)
        change.setitem(api.functions, "wgpuInstanceProcessEvents", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            request(api, 0, "wgpuAdapterRequestDevice", 0, 0)
    gc.collect()
    words = late[0]
    world.function(words[CALLBACK_WORD], 6)(3, 0, 0, 0, *words[USERDATA_WORD:])
    with webgpu(library, world) as device:
        np.testing.assert_array_equal(get(device, put(device, ramp(COUNT))), ramp(COUNT))
    check(not watch.left, f"{watch.left}")
