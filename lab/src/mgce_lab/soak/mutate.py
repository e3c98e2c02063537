"""Files made from good ones by changes such as accidents and attackers make, each drawn again from its number."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import re
import zipfile
from collections.abc import Sequence

# Numbers at which readers break: ends of ranges, and those that are taken for lengths.
INTEGERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, -1)
WORDS = (b"", b"-1", b"1e309", b"NaN", b"Infinity", b"null", b"true", b"{}", b"[]", b'""', b"0.5", b"9" * 30, b'"inf"')
TOKEN = re.compile(rb'"[^"\\]{0,40}"|-?[0-9][0-9.eE+-]*|true|false|null')
NASTY = (b"\0", b"\xff", b"\x1b[2J", b"\xe2\x80\xae", b"=cmd", b'"', b",", b"\n", b"\r")


def mutated(seeds: Sequence[bytes], number: int, name: str) -> bytes:
    """Return the file of a number, made from one or two seeds."""
    draw = random.Random(f"{name}:{number}")
    content = draw.choice(seeds)
    if draw.random() < 0.6:  # below the checksum of a container, or only its first layer is ever met
        inside = _inside(draw, content)
        if inside is not None:
            return inside
    return _changed(draw, content, seeds)


def _inside(draw: random.Random, content: bytes) -> bytes | None:
    """Change what a zip, gzip or xz file holds, and pack it again; None if it is no such file."""
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        chosen = draw.choice(list(members))
        if draw.random() < 0.05:
            members.pop(chosen)
        else:
            members[chosen] = _changed(draw, members[chosen], list(members.values()))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for name, member in members.items():
                archive.writestr(name, member)
        return packed.getvalue()
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(_changed(draw, gzip.decompress(content), []), mtime=0)
    if content[:6] == b"\xfd7zXZ\0":
        return lzma.compress(_changed(draw, lzma.decompress(content), []), preset=0)
    return None


def _changed(draw: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        changed = draw.choice(CHANGES)(draw, changed, others)
    return bytes(changed)


def _place(draw: random.Random, content: bytearray) -> int:
    """Draw a place, half of the time near the beginning, where headers are."""
    end = len(content) if draw.random() < 0.5 else min(len(content), 256)
    return draw.randrange(end) if end else 0


def _flip(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    if content:
        content[_place(draw, content)] ^= 1 << draw.randrange(8)
    return content


def _byte(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    if content:
        content[_place(draw, content)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    return content


def _integer(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    size, order = draw.choice((1, 2, 4, 8)), draw.choice(("little", "big"))
    place = _place(draw, content)
    content[place : place + size] = (draw.choice(INTEGERS) % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
    return content


def _cut(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    return content[: _place(draw, content)]


def _remove(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    place = _place(draw, content)
    del content[place : place + draw.choice((1, 2, 4, 16, 64))]
    return content


def _repeat(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    place, length = _place(draw, content), draw.choice((1, 4, 16, 64, 256))
    content[place:place] = content[place : place + length] * draw.choice((1, 2, 50))
    return content


def _insert(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    place = _place(draw, content)
    content[place:place] = draw.choice(NASTY)
    return content


def _splice(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    if others:
        other, place = draw.choice(list(others)), _place(draw, content)
        content[place:] = other[draw.randrange(len(other) + 1) :]
    return content


def _word(draw: random.Random, content: bytearray, others: Sequence[bytes]) -> bytearray:
    """Replace one number or text of the content by another."""
    found = list(TOKEN.finditer(bytes(content[:20_000])))
    if found:
        one = draw.choice(found)
        content[one.start() : one.end()] = draw.choice((*WORDS, draw.choice(found).group()))
    return content


CHANGES = (_flip, _byte, _integer, _cut, _remove, _repeat, _insert, _splice, _word, _word)
