"""The Objective-C runtime: messages with their types, objects that are owned, autorelease pools.

What an object is held by: `alloc`, `new...` and `retain` give one reference, which `Owned.release`
gives back, once. Everything else that a message gives is autoreleased: it lives until the pool
around the call is drained, so that what is kept longer is retained inside that pool.
# src: Apple, "Advanced Memory Management Programming Guide": Basic Memory Management Rules
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, NotFound, UseAfterFree
from drivers.base.library import Native
from drivers.metal import abi
from drivers.metal.system import elsewhere
from drivers.world.native import address_of

_WORD_BYTES: Final = 8
_LAST_ADDRESS: Final = (1 << 56) - 1
"""Tagged pointers of Foundation aside, which no object of Metal is."""
MAX_TEXT_BYTES: Final = 1 << 20
_BITS8: Final = 0xFF


class Cell:
    """A word of memory that a message writes an object to."""

    def __init__(self) -> None:
        self._bytes = bytearray(_WORD_BYTES)
        self.at = address_of(self._bytes)

    @property
    def word(self) -> int:
        """What was written."""
        return int.from_bytes(self._bytes, "little")


def text_bytes(text: str) -> bytearray:
    """A C string."""
    return bytearray(text.encode() + b"\0")


class Api:
    """Libraries, classes and selectors of this process; `send[selector](object, ...)`.

    Raises, for every message that ought to give an object and gives none: DeviceError.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        try:
            graphics, foundation = world.library(abi.GRAPHICS), world.library(abi.FOUNDATION)
            kept = {name: world.library(name) for name in (abi.OBJC, abi.METAL)}
        except NotFound as error:
            raise elsewhere(world) or error.advised("use macOS 13 or later") from error
        self._libraries = [graphics, foundation, *kept.values()]
        self.functions: dict[str, Native] = {
            name: kept[library].function(name, signature)
            for name, (library, signature) in abi.FUNCTIONS.items()
        }
        self._sends: dict[tuple[str, ...], Native] = {}
        self.selectors: dict[str, int] = {}
        self.send: dict[str, Callable[..., Any]] = {
            selector: self._message(kept[abi.OBJC].function, selector, message)
            for selector, message in abi.MESSAGES.items()
        }
        self._strlen = world.function(world.symbol("strlen"), 1)
        self._memcpy = world.function(world.symbol("memcpy"), 3)
        self._classes: dict[str, int] = {}
        self.known_classes: frozenset[int] = frozenset()
        """Of this process, when they were last listed."""

    def _message(
        self, find: Callable[[str, str], Native], selector: str, message: abi.Message
    ) -> Callable[..., Any]:
        """A function that sends one message."""
        spelled = message.returns, *message.args
        if spelled not in self._sends:
            types = [abi.TYPES[kind] for kind in message.args]
            stret = message.returns == "size" and os.uname().machine in abi.STRUCT_BY_STRET
            symbol = abi.SEND_STRUCT if stret else abi.SEND
            arguments = ", ".join(["uint64_t", "uint64_t", *types])
            self._sends[spelled] = find(symbol, f"{abi.TYPES[message.returns]}(*)({arguments})")
        name = text_bytes(selector)
        number = self._known(self.functions["sel_registerName"](address_of(name)), selector)
        self.selectors[selector] = number
        call = partial(_sent, self._sends[spelled], number)
        check = _number if selector in abi.MAYBE_NOTHING else _CHECKED[message.returns]
        return partial(check, selector, call)

    def _known(self, value: int, name: str) -> int:
        if not 0 < value <= _LAST_ADDRESS:
            raise DeviceError(f"the Objective-C runtime has no {name}", hint="update macOS")
        return value

    def class_of(self, name: str) -> int:
        """A class. Raises: DeviceError without it."""
        if name not in self._classes:
            text = text_bytes(name)
            found = self.functions["objc_getClass"](address_of(text))
            self._classes[name] = self._known(found, f"class {name}")
        return self._classes[name]

    def new(self, name: str) -> Owned:
        """An object of a class, initialised."""
        send = self.send
        return Owned(self, send["init"](send["alloc"](self.class_of(name))))

    def string(self, text: str) -> Owned:
        """An NSString."""
        raw = text_bytes(text)
        made = self.send["alloc"](self.class_of("NSString"))
        encoding = abi.CONSTANTS["NS::UTF8StringEncoding"]
        return Owned(self, self.send["initWithCString:encoding:"](made, address_of(raw), encoding))

    def text(self, string: int) -> str:
        """The text of an NSString, inside a pool: its bytes are autoreleased."""
        address = self.send["UTF8String"](string)
        nbytes = self._strlen(address)
        if nbytes > MAX_TEXT_BYTES:
            raise MalformedInput(f"a string of {nbytes} bytes", hint="report it")
        room = bytearray(nbytes)
        if nbytes:
            self._memcpy(address_of(room), address, nbytes)
        return room.decode(errors="replace")

    @contextmanager
    def pool(self) -> Iterator[None]:
        """Inside, autoreleased objects live; pools of a thread nest."""
        send = self.send
        made = send["init"](send["alloc"](self.class_of("NSAutoreleasePool")))
        try:
            yield
        finally:
            send["drain"](made)


class Owned:
    """One reference to an object, given back once."""

    __slots__ = ("_api", "handle")

    def __init__(self, api: Api, handle: int) -> None:
        self._api, self.handle = api, handle

    def release(self) -> None:
        """Raises: UseAfterFree the second time."""
        handle, self.handle = self.handle, 0
        if not handle:
            raise UseAfterFree("an object of Metal was released twice", hint="report it")
        self._api.send["release"](handle)


def retained(api: Api, handle: int) -> Owned:
    """A reference of ours to what a message gave."""
    return Owned(api, api.send["retain"](handle))


def _sent(call: Native, selector: int, target: int, *args: Any) -> Any:
    return call(target, selector, *args)


def _object(selector: str, call: Callable[..., Any], *args: Any) -> int:
    found: int = call(*args)
    if not 0 < found <= _LAST_ADDRESS:
        raise DeviceError(f"Metal's {selector} gives nothing", hint=_HINT)
    return found


def _number(selector: str, call: Callable[..., Any], *args: Any) -> int:
    found: int = call(*args)
    return found


def _flag(selector: str, call: Callable[..., Any], *args: Any) -> bool:
    found: int = call(*args)
    return bool(found & _BITS8)


def _seconds(selector: str, call: Callable[..., Any], *args: Any) -> float:
    return float(call(*args))


def _words(selector: str, call: Callable[..., Any], *args: Any) -> tuple[int, ...]:
    found = call(*args)
    if not isinstance(found, tuple):
        raise MalformedInput(f"Metal's {selector} gives {found!r:.40}", hint=_HINT)
    return found


_HINT: Final = "update macOS, or report this line with its version"
_CHECKED: Final[dict[str, Callable[..., Any]]] = {
    "id": _object, "pointer": _object, "void": _number, "u64": _number, "i64": _number,
    "bool": _flag, "f64": _seconds, "size": _words,
}  # fmt: skip
