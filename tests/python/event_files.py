"""Reads event files of TensorBoard, by the descriptions of their formats: frames of records, fields of messages, pictures."""

import struct
import zlib

import numpy as np

_TABLE = []
for _i in range(256):
    for _ in range(8):
        _i = _i >> 1 ^ (0x82F63B78 if _i & 1 else 0)
    _TABLE.append(_i)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        while head := file.read(12):
            length, crc = struct.unpack("<QI", head)
            assert crc == masked_crc32c(head[:8])
            record = file.read(length)
            assert struct.unpack("<I", file.read(4))[0] == masked_crc32c(record)
            yield record


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


def fields(data):
    """{number: [values]}; a value is an int or its bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
            value -= (value >> 63) << 64
        else:
            if key & 7 == 2:
                size, at = _varint(data, at)
            else:
                size = {1: 8, 5: 4}[key & 7]
            value = data[at : at + size]
            assert len(value) == size
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def values(path):
    """(step, tag, fields of the value) of each summary in a file."""
    first, *others = [fields(record) for record in records(path)]
    assert first[3] == [b"brain.Event:2"]
    for event in others:
        for summary in event.get(5, []):
            (value,) = fields(summary)[1]
            value = fields(value)
            yield event[2][0], value[1][0].decode(), value


def png(data):
    """The pixels of a PNG file of 8 bits without filters and interlacing: (height, width, channels)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(kind + content)
        if kind == b"IHDR":
            width, height, bits, colour, *rest = struct.unpack(">IIBBBBB", content)
            assert bits == 8 and rest == [0, 0, 0]
            channels = {0: 1, 2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += content
        at += 12 + length
    assert kind == b"IEND"
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)
