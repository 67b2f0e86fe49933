"""I2C transactions of gfx942's power controller, and the one device that answers: the FRU EEPROM.

src: smu13_driver_if_v13_0_6.h SwI2cRequest_t, SwI2cCmd_t; amdgpu_eeprom.c __amdgpu_eeprom_xfer()
"""

from __future__ import annotations

REQUEST_BYTES = 52
_HEAD_BYTES, _COMMAND_BYTES, _MOST_COMMANDS, _OFFSET_BYTES = 4, 2, 24, 2
_WRITE = 1 << 2
"""src: CMDCONFIG_READWRITE_MASK"""
_FRU_ADDRESS = (0x50 | 0x8) << 1
"""src: amdgpu_fru_eeprom.c FRU_EEPROM_MADDR_8; MAKE_I2C_ADDR()"""
FRU = bytes((1, 0, 0, 0, 0, 0, 0, 0xFF))
"""A common header with no area behind it, its bytes adding up to 0. src: IPMI FRU 1.0, section 8"""
_ERASED = 0xFF


def transaction(request: bytes) -> bytes | None:
    """A request with what was read in it; None: no device acknowledges its address, or it is no
    read of an EEPROM: an offset of two bytes, most significant first, then reads."""
    _, _, address, count = request[:_HEAD_BYTES]
    if address != _FRU_ADDRESS or not _OFFSET_BYTES <= count <= _MOST_COMMANDS:
        return None
    answer = bytearray(request)
    places = [_HEAD_BYTES + _COMMAND_BYTES * number for number in range(count)]
    written = [bool(request[at + 1] & _WRITE) for at in places]
    if written != [True] * _OFFSET_BYTES + [False] * (count - _OFFSET_BYTES):
        return None
    offset = int.from_bytes(bytes(request[at] for at in places[:_OFFSET_BYTES]), "big")
    for number, at in enumerate(places[_OFFSET_BYTES:], offset):
        answer[at] = FRU[number] if number < len(FRU) else _ERASED
    return bytes(answer)
