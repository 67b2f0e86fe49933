"""Adapters of all libraries, and the one that is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from drivers.base.contracts import World
from drivers.base.deadline import polls
from drivers.base.errors import BadChoice, DeviceError, NotFound
from drivers.base.undo import run_all
from drivers.webgpu import abi
from drivers.webgpu.api import Api, text_at
from drivers.webgpu.layout import Record
from drivers.webgpu.libraries import INSTALL, check_process, load_all
from drivers.world.native import address_of, callback

MISSING: Final = (
    f"{INSTALL}, and a Vulkan driver: Debian's mesa-vulkan-drivers has one for the processor"
)
NO_ADAPTER: Final = "has no adapter"
PATIENCE_S: Final = 60.0
SPARE_ADAPTERS: Final = 64
"""That may come between counting and listing."""
CALLBACK: Final = "void(*)(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)"
"""(status, object, message, its length, userdata1, userdata2)"""
ANSWER: Final = "void(*)(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t)"
"""The same without an object."""


@dataclass(frozen=True, slots=True)
class About:
    """What an adapter says of itself."""

    library: str
    name: str
    driver: str
    backend: str
    kind: str
    """A key of ADAPTER_TYPES' values."""

    @property
    def title(self) -> str:
        """As the probe shows it."""
        return f"{self.name} ({self.backend}, {self.kind}, {self.library})"

    def matches(self, wanted: str) -> bool:
        """Whether a part of its title is `wanted`, in any case."""
        return wanted.casefold() in self.title.casefold()


class Adapters:
    """An instance of one library with its adapters; `close` releases what is left."""

    def __init__(self, api: Api) -> None:
        self.api = api
        descriptor = api.record("InstanceDescriptor")
        self.instance = api.make("wgpuCreateInstance", descriptor.at)
        self.handles: list[int] = []
        try:
            self.handles = self._enumerated() if api.flavour.native else self._best()
        except BaseException:
            self.close()
            raise

    def _enumerated(self) -> list[int]:
        """wgpu-native: all of them."""
        call = self.api.functions["wgpuInstanceEnumerateAdapters"]
        options = Record(self.api.layouts.of("ChainedStruct"))
        wide = bytearray(options.raw)  # {nextInChain, backends}: as long as a ChainedStruct
        wide[8] = abi.BACKENDS_PRIMARY
        count = call(self.instance, address_of(wide), 0)
        if not count:
            return []
        room = bytearray(8 * (count + SPARE_ADAPTERS))  # it writes all, however many
        count = call(self.instance, address_of(wide), address_of(room))
        return [handle for handle in memoryview(room).cast("Q")[:count] if handle]

    def _best(self) -> list[int]:
        """Dawn: the one that it prefers, if any computes."""
        options = self.api.record(
            "RequestAdapterOptions", featureLevel=abi.FEATURE_LEVEL_CORE,
            powerPreference=abi.HIGH_PERFORMANCE,
        )  # fmt: skip
        status, handle, _ = request(
            self.api, self.instance, "wgpuInstanceRequestAdapter", self.instance, options.at
        )
        if status != abi.SUCCESS or not handle:
            return []
        self.handles = [handle]  # released by close() if what follows fails
        if self._info(handle)["backendType"] != abi.BACKEND_NULL:
            return self.handles
        self.api.functions["wgpuAdapterRelease"](handle)
        return []

    def _info(self, handle: int) -> Record:
        info = self.api.record("AdapterInfo")
        if self.api.functions["wgpuAdapterGetInfo"](handle, info.at) != abi.SUCCESS:
            raise DeviceError(f"{self.api.name}: an adapter says nothing", hint=MISSING)
        return info

    def about(self, handle: int) -> About:
        """Ask an adapter. Raises: DeviceError."""
        api, info = self.api, self._info(handle)

        def text(member: str) -> str:
            return text_at(info[f"{member}.data"], info[f"{member}.length"]).strip()

        # What the library allocated for the texts stays: FreeMembers takes the struct by value.
        return About(
            library=api.flavour.name,
            name=text("device") or text("vendor") or "an adapter without a name",
            driver=text("description"),
            backend=abi.BACKENDS.get(info["backendType"], f"backend {info['backendType']}"),
            kind=abi.ADAPTER_TYPES.get(info["adapterType"], "unknown"),
        )

    def subgroup_lanes(self, handle: int) -> int:
        """Lanes of every subgroup; 0 where their number differs or is not known."""
        api = self.api
        info = self._info(handle) if not api.flavour.subgroups else self._apart(handle)
        least, most = info["subgroupMinSize"], info["subgroupMaxSize"]
        return most if least == most else 0

    def _apart(self, handle: int) -> Record:
        """Sizes of subgroups, in a struct of their own."""
        made = self.api.record("AdapterPropertiesSubgroups")
        made["chain.sType"] = self.api.flavour.subgroups
        info = self.api.record("AdapterInfo", next=made.at)
        if self.api.functions["wgpuAdapterGetInfo"](handle, info.at) != abi.SUCCESS:
            raise DeviceError(f"{self.api.name}: an adapter says nothing", hint=MISSING)
        return made

    def take(self, handle: int) -> None:
        """From now on somebody else releases it."""
        self.handles.remove(handle)

    def close(self) -> None:
        """Release the adapters and the instance."""
        functions = self.api.functions
        handles, self.handles = self.handles, []
        run_all([partial(functions["wgpuAdapterRelease"], one) for one in handles])
        functions["wgpuInstanceRelease"](self.instance)


class _Answers:
    """One callback for all requests of a library: it may come after an interrupted wait."""

    def __init__(self) -> None:
        self.number = 0
        self.found: dict[int, tuple[int, int, str]] = {}
        """Number of a request -> status, object, message. What an abandoned one gets stays."""
        self.wanted: dict[int, object] = {}
        """What the library may call while it has no answer."""
        self.raised: list[BaseException] = []
        self.address, self._kept = callback(CALLBACK, self._answered, self.raised.append)

    def _answered(
        self, status: int, made: int, data: int, length: int, number: int, *_: int
    ) -> None:
        self.found[number] = (status, made, text_at(data, length))

    @staticmethod
    def of(api: Api) -> _Answers:
        """Those of a library, for as long as the process has it."""
        if not isinstance(api.answers, _Answers):
            api.answers = _Answers()
        return api.answers


def request(
    api: Api, instance: int, call: str, *args: int, held: object = None
) -> tuple[int, int, str]:
    """(status, object, message) of a call that answers by a callback.

    `held` lives until the answer, or for ever. Raises: DeviceError.
    """
    answers = _Answers.of(api)
    answers.number += 1
    number = answers.number
    info = api.record(
        "CallbackInfo", mode=abi.ALLOW_SPONTANEOUS, callback=answers.address, userdata1=number
    )
    answers.wanted[number] = held
    api.ask(call, *args, info=info)
    for _ in polls(PATIENCE_S, api.world):
        if answers.raised:
            raise answers.raised.pop()
        if number in answers.found:
            del answers.wanted[number]
            return answers.found.pop(number)
        api.functions["wgpuInstanceProcessEvents"](instance)
    raise DeviceError(f"{call} was not answered in {PATIENCE_S:g} s", hint="restart the program")


def find(world: World, named: str | None = None) -> Iterator[tuple[Adapters, int] | DeviceError]:
    """(instance, adapter) of each adapter, or why a library has none. Who takes an item closes its
    instance."""
    for api in load_all(world, named):
        if isinstance(api, DeviceError):
            yield api
            continue
        try:
            adapters = Adapters(api)
        except DeviceError as error:
            yield error
            continue
        if not adapters.handles:
            adapters.close()
            yield NotFound(f"{api.name} {NO_ADAPTER}", hint=MISSING)
            continue
        for handle in list(adapters.handles):
            yield adapters, handle


def listed(world: World, named: str | None = None) -> tuple[list[About], list[DeviceError]]:
    """Every adapter, and why a library was passed over. Nothing stays open."""
    found: list[About] = []
    errors: list[DeviceError] = []
    instances: dict[int, Adapters] = {}
    try:
        for item in find(world, named):
            if isinstance(item, DeviceError):
                errors.append(item)
            else:
                instances[item[0].instance] = item[0]
                describe(*item, found, errors)
    finally:
        run_all([one.close for one in instances.values()])
    return found, errors


def describe(
    adapters: Adapters, handle: int, found: list[About], errors: list[DeviceError]
) -> None:
    """What one adapter says of itself, or why it says nothing: the others are not affected."""
    try:
        found.append(adapters.about(handle))
    except DeviceError as error:
        errors.append(error)


def choose(
    world: World, index: int, wanted: str | None, named: str | None
) -> tuple[Adapters, int, About]:
    """Adapter `index` of those that WEBGPU_DEVICE leaves: all, one number, or those of a name.

    Raises: NotFound with what there is; BadChoice for a WEBGPU_DEVICE that matches none;
    Unsupported in a child of a process that had loaded a WebGPU library.
    """
    check_process()
    errors: list[DeviceError] = []
    instances: dict[int, Adapters] = {}
    left: list[tuple[Adapters, int, About]] = []
    shown: list[str] = []
    chosen: Adapters | None = None
    try:
        for item in find(world, named):
            if isinstance(item, DeviceError):
                errors.append(item)
                continue
            adapters, handle = item
            instances[adapters.instance] = adapters
            described: list[About] = []
            describe(adapters, handle, described, errors)
            if not described:
                continue
            (about,) = described
            number = len(shown)
            shown.append(f"{number}: {about.title}")
            if not wanted or _is(about, number, wanted):
                left.append((adapters, handle, about))
        found = _one(left, shown, errors, index, wanted)
        chosen = found[0]
        return found
    finally:
        run_all([one.close for one in instances.values() if one is not chosen])


def _one(
    left: list[tuple[Adapters, int, About]], shown: list[str], errors: list[DeviceError],
    index: int, wanted: str | None,
) -> tuple[Adapters, int, About]:  # fmt: skip
    if not shown:
        why = "; ".join(error.message for error in errors) or "no library has an adapter"
        raise NotFound(f"no WebGPU adapter: {why}", hint=MISSING)
    if not left:
        raise BadChoice(
            f"WEBGPU_DEVICE={wanted!a} is none of {'; '.join(shown)}", hint="Choose one"
        )
    if index >= len(left):
        raise NotFound(f"there is no WEBGPU:{index}", hint=f"There is {'; '.join(shown)}")
    return left[index]


def _is(about: About, number: int, wanted: str) -> bool:
    return wanted == str(number) if wanted.isdecimal() else about.matches(wanted)
