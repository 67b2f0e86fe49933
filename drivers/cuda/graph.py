"""Graphs: launches in a row are one CUDA graph, made once; what changed is put into its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from drivers.base.contracts import Buffer
from drivers.base.undo import Step as Release
from drivers.base.undo import Undo
from drivers.cuda.api import Api, Words
from drivers.cuda.commands import Launch, Step
from drivers.cuda.owner import CudaOwner
from drivers.cuda.ring import Ring
from drivers.world.native import address_of
from queues.builder import Built
from queues.graph import Recording

LEAST: Final = 2
"""Launches in a row that are worth a CUDA graph."""


class Run:
    """Launches in a row, each node after the one before. Use it with the device's lock held."""

    def __init__(self, api: Api, launches: Sequence[Launch]) -> None:
        self._api, self._launches = api, list(launches)
        self.count = len(launches)
        self._nodes: list[int] = []
        self._names = [launch.kernel.name for launch in launches]
        self.releases: list[Release] = []
        """What gives its objects back, when no stream uses them."""
        with Undo() as undo:
            graph = api.make("cuGraphCreate", 0)
            self.releases.append(partial(api.do, "cuGraphDestroy", graph))
            undo.add(self.drop_now)
            for launch in launches:
                after = Words(self._nodes[-1:])
                node = _node(launch)
                self._nodes.append(api.make(
                    "cuGraphAddKernelNode_v2", graph, after.at, min(len(self._nodes), 1),
                    address_of(node),
                ))  # fmt: skip
            self._exec = api.make("cuGraphInstantiateWithFlags", graph, 0)
            self.releases.insert(0, partial(api.do, "cuGraphExecDestroy", self._exec))

    def fill(self, launches: Sequence[Launch]) -> None:
        """Put changed launches into its nodes: what runs already keeps what it had."""
        for place, launch in enumerate(launches):
            if launch is not self._launches[place]:
                node = _node(launch)
                self._api.do(
                    "cuGraphExecKernelNodeSetParams_v2", self._exec, self._nodes[place],
                    address_of(node),
                )  # fmt: skip
                self._launches[place] = launch

    def start(self, ring: Ring) -> None:
        """Enqueue all of them."""
        self._api.do("cuGraphLaunch", self._exec, ring.stream)
        ring.kernels.extend(self._names)
        ring.count()

    def drop_now(self) -> None:
        """Give back everything of one that never ran."""
        for release in self.releases:
            release()


def _node(launch: Launch) -> bytes:
    return launch.kernel.node(launch.words, launch.grid, launch.block, launch.shared_bytes)


class CudaGraph(Recording[Step]):
    """Steps recorded once."""

    def __init__(self, device: CudaOwner, ring: Ring, built: Built[Step]) -> None:
        super().__init__(built)
        self._device, self._ring, self._steps = device, ring, built.steps
        self._mark: object = None
        self._runs: dict[int, Run] | None = None
        """By the first step that each stands for; None before the first replay."""
        device.register(self)

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run it; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree."""
        device, ring = self._device, self._ring
        device.check_open()
        with device.working():
            device.check_open()
            given = self._counted(values)
            steps = list(self._steps)
            for patches, value in zip(self._params, given, strict=True):
                for patch in patches:
                    step, word = steps[patch.step], patch.resolve(value)
                    if isinstance(step, Launch) or hasattr(step, "filled"):
                        steps[patch.step] = step.filled(patch.number, word)
            mark = device.freed_mark  # before the look: what another thread frees meanwhile counts
            if mark is not self._mark:
                device.check_alive(self._keep)
                self._mark = mark
            device.pump()
            if not ring.pending:
                steps = self._started(steps)
            device.push(ring, steps)

    def _started(self, steps: list[Step]) -> list[Step]:
        """Enqueue everything before the first wait that is not met; the rest."""
        if self._runs is None:
            self._runs = self._made(steps)
        place = 0
        for _ in range(len(steps)):
            if place == len(steps):
                break
            found = self._runs.get(place)
            if found is None:
                if not steps[place]():
                    break
                place += 1
                continue
            launches = [
                step for step in steps[place : place + found.count] if isinstance(step, Launch)
            ]
            found.fill(launches)
            found.start(self._ring)
            place += found.count
        return steps[place:]

    def _made(self, steps: list[Step]) -> dict[int, Run]:
        """CUDA graphs for launches in a row."""
        made: dict[int, Run] = {}
        row: list[Launch] = []
        with Undo() as undo:
            for place in range(len(steps) + 1):
                step = steps[place] if place < len(steps) else None
                if isinstance(step, Launch):
                    row.append(step)
                    continue
                if len(row) >= LEAST:
                    one = Run(self._device.api, row)
                    undo.add(one.drop_now)
                    made[place - len(row)] = one
                row = []
        return made

    def close(self) -> None:
        """Drop what it names. A second close does nothing."""
        super().close()
        runs, self._runs, self._steps = self._runs or {}, None, []
        for one in runs.values():
            for release in one.releases:
                self._device.drop(release)

    def __del__(self) -> None:
        self.close()
