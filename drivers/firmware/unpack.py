"""Firmware as distributions pack it: plain, .xz, .zst; never longer than asked for."""

from __future__ import annotations

import lzma
from typing import Any

from drivers.base.errors import MalformedInput, Unsupported

SUFFIXES = ("", ".xz", ".zst")
"""What may follow a file's name; src: Linux, drivers/base/firmware_loader/main.c."""
_XZ_MEMORY_BYTES = 32 << 20
_ZSTD_DECLARATIONS = """
    size_t ZSTD_decompress(void *to, size_t room_bytes, const void *from, size_t from_bytes);
    unsigned ZSTD_isError(size_t result);
    const char *ZSTD_getErrorName(size_t result);
"""
"""src: zstd.h of zstd 1.5, "Simple API" (stable since 1.0)."""
_ZSTD_LIBRARY = "libzstd.so.1"


def unpack(data: bytes, path: str, limit_bytes: int) -> bytes:
    """The firmware in a file called `path`.

    Raises: MalformedInput when it is damaged or longer than `limit_bytes`; Unsupported when this
    machine cannot read its packing.
    """
    if path.endswith(".xz"):
        data = _unpack_xz(data, path, limit_bytes)
    elif path.endswith(".zst"):
        data = _unpack_zstd(data, path, limit_bytes)
    if len(data) > limit_bytes:
        raise _damaged(path, f"it is longer than {limit_bytes} bytes")
    return data


def _damaged(path: str, reason: str) -> MalformedInput:
    return MalformedInput(
        f"{path} cannot be unpacked: {reason}", hint="install the firmware package again"
    )


def _unpack_xz(data: bytes, path: str, limit_bytes: int) -> bytes:
    """One .xz stream; what stands behind it is an error."""
    reader = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    try:
        plain = reader.decompress(data, max_length=limit_bytes + 1)
    except lzma.LZMAError as error:
        raise _damaged(path, str(error)) from error
    if len(plain) <= limit_bytes and (not reader.eof or reader.unused_data):
        raise _damaged(path, "the stream ends too early, or something follows it")
    return plain


def _unpack_zstd(data: bytes, path: str, limit_bytes: int) -> bytes:
    """Zstandard frames, through the system's library: Python has none before 3.14."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(_ZSTD_DECLARATIONS)
    try:
        library: Any = ffi.dlopen(_ZSTD_LIBRARY)
    except OSError as error:
        raise Unsupported(
            f"{path} is packed with Zstandard, and {_ZSTD_LIBRARY} is not on this machine",
            hint="Install libzstd (Debian: libzstd1), or unpack the file with `zstd -d` into a "
            "directory and set UNBOUND_FIRMWARE to it",
        ) from error
    room = ffi.new("unsigned char[]", limit_bytes + 1)
    nbytes = library.ZSTD_decompress(room, limit_bytes + 1, ffi.from_buffer(data), len(data))
    if library.ZSTD_isError(nbytes):
        reason = ffi.string(library.ZSTD_getErrorName(nbytes))
        raise _damaged(path, reason.decode("ascii") if isinstance(reason, bytes) else reason)
    return bytes(ffi.buffer(room, nbytes))
