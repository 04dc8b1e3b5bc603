"""The XMP packet inside a JPEG file, and another one in its place.

A JPEG file has a head of segments, then the pixels, and perhaps more: other pictures, a video. Only
the segment with the packet is replaced or inserted, and all other bytes stay. Some of them are
found by their distance, which must not change:

- The offsets in an index of pictures (MPF) begin at the index. A new packet comes before it. Where
  the packet comes after it, the new one must have the same length.
- Space at the end of a packet is used up first, so that often nothing moves.

Extended XMP, for properties that need more than 64 KiB, has segments of its own, which stay.
"""

from collections.abc import Iterator

from supdocnade.folders.keywords import UnusableXMP

START = b"\xff\xd8"
HEADER, EXTENDED_HEADER = b"http://ns.adobe.com/xap/1.0/\0", b"http://ns.adobe.com/xmp/extension/\0"
MAX_PACKET = 65502
"""Bytes of a packet, by the standard."""

_APP0, _APP1, _SCAN, _END = 0xE0, 0xE1, 0xDA, b"\xff\xd9"
_EXTENDED_START = len(EXTENDED_HEADER) + 32 + 4 + 4
"""Bytes before a part of extended XMP: also digest, length and offset."""


def find_segment(content: bytes) -> tuple[int, int]:
    """Return start and end of the segment with the packet, equal where a first one would be.

    Raises
    ------
    UnusableXMP : the file is damaged, or no keywords can be added to its XMP.
    """
    found, place, extended = [], len(START), b""
    is_leading = True
    for marker, start, end in _iter_segments(content):
        body = content[start + 4 : end]
        if marker == _APP1 and body.startswith(HEADER):
            found.append((start, end))
        if marker == _APP1 and body.startswith(EXTENDED_HEADER):
            extended += body[_EXTENDED_START:]
        is_leading &= marker == _APP0 or (marker == _APP1 and body.startswith(b"Exif\0"))
        place = end if is_leading else place
    if len(found) > 1:
        raise UnusableXMP("it has several XMP packets")
    if any(name in extended for name in (b":subject", b":hierarchicalSubject", b":TagsList")):
        raise UnusableXMP("it has keywords in extended XMP")
    return found[0] if found else (place, place)


def read_packet(content: bytes) -> bytes | None:
    """Return the packet in a JPEG file, None if it has none."""
    start, end = find_segment(content)
    return content[start + 4 + len(HEADER) : end].rstrip(b"\0") if end > start else None


def replace_packet(content: bytes, packet: bytes) -> bytes:
    """Return a JPEG file with another packet."""
    start, end = find_segment(content)
    packet = _use_padding(packet, end - start - 4 - len(HEADER))
    if len(packet) > MAX_PACKET:
        raise UnusableXMP("its XMP has no room for more keywords")
    body = HEADER + packet
    segment = b"\xff\xe1" + (2 + len(body)).to_bytes(2, "big") + body
    if len(segment) != end - start and b"MPF\0" in content[:start]:
        raise UnusableXMP("its XMP comes after the index of its pictures and cannot grow")
    return content[:start] + segment + content[end:]


def _iter_segments(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of every segment before the pixels."""
    if not content.startswith(START):
        raise UnusableXMP("it is not a JPEG file")
    place = len(START)
    while True:
        while content.startswith(b"\xff\xff", place):
            place += 1  # A marker may be preceded by any number of these bytes.
        marker, length = content[place + 1 : place + 2], content[place + 2 : place + 4]
        end = place + 2 + int.from_bytes(length, "big")
        if content[place : place + 1] != b"\xff" or not place + 4 <= end <= len(content):
            raise UnusableXMP("it is a damaged JPEG file")
        if marker[0] == _SCAN:
            break
        yield marker[0], place, end
        place = end
    if content.find(_END, end) < 0:
        raise UnusableXMP("it is a damaged JPEG file: its end is missing")


def _use_padding(packet: bytes, length: int) -> bytes:
    """Return a packet with less space at its end, if it is longer than it should be."""
    end = packet.rfind(b"<?xpacket end")
    space = end - len(packet[: max(end, 0)].rstrip())
    used = max(min(len(packet) - length, space - 1), 0)
    return packet[: end - used] + packet[end:] if used else packet
