"""Keywords in XMP sidecar files.

A new file has them in `dc:subject`, the bag of keywords that every photo manager reads. In a file
that exists they are inserted into that bag, and into `lr:hierarchicalSubject` where there is one
(darktable then looks nowhere else); every other byte stays as it is.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import escape

from supdocnade.cli.console import tags_of
from supdocnade.errors import StorageError

if TYPE_CHECKING:
    from supdocnade.scene.prediction import Prediction


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
LR = "http://ns.adobe.com/lightroom/1.0/"

SUBJECT, HIERARCHICAL = f"{DC} subject", f"{LR} hierarchicalSubject"
_CONTAINERS = {f"{RDF} {kind}" for kind in ("Bag", "Seq", "Alt")}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")

_PACKET = """\
<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="supdocnade">
 <rdf:RDF xmlns:rdf="{rdf}">
  <rdf:Description rdf:about="" xmlns:dc="{dc}">
   <dc:subject>
    <rdf:Bag>
{items}
    </rdf:Bag>
   </dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


class UnusableXMP(ValueError):
    """A file is no XMP, or one that keywords cannot be added to."""


def new_packet(keywords: list[str]) -> bytes:
    """Return a sidecar that holds keywords alone."""
    items = "\n".join(f"     <rdf:li>{_text(word)}</rdf:li>" for word in keywords)
    return _PACKET.format(rdf=RDF, dc=DC, items=items).encode()


def read_keywords(content: bytes) -> list[str]:
    """Return the keywords in `dc:subject`."""
    found = _scan(content).properties.get(SUBJECT)
    return [] if found is None else found.items


def add_keywords(content: bytes, keywords: list[str]) -> bytes:
    """Return a sidecar with more keywords; those that it has already are not repeated."""
    scanned = _scan(content)
    keywords = [_NOT_XML.sub("", word) for word in keywords]
    edits: list[tuple[int, int, str]] = []
    for name in (SUBJECT, HIERARCHICAL):
        found = scanned.properties.get(name)
        missing = keywords if found is None else [w for w in keywords if w not in found.items]
        if not missing or (found is None and name == HIERARCHICAL):
            continue
        items = "".join(f'<rdf:li xmlns:rdf="{RDF}">{_text(word)}</rdf:li>' for word in missing)
        if found is None:
            bag = f'<rdf:Bag xmlns:rdf="{RDF}">{items}</rdf:Bag>'
            items = f'<dc:subject xmlns:dc="{DC}">{bag}</dc:subject>'
            place = scanned.description
        else:
            place = found.container
        if place is None:
            raise UnusableXMP("it has no place for keywords")
        edits.append(place.inserting(content, items))
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content


@dataclass
class _Element:
    """Where an element is."""

    tag: str
    """Its name as it is written."""
    start: int
    """The byte at which its start tag begins."""
    end: int = -1
    """The byte at which its end tag begins, if it has one."""

    def inserting(self, content: bytes, text: str) -> tuple[int, int, str]:
        """Return the bytes to replace, and with what, for a text to stand last in the element."""
        tag = _START_TAG.match(content, self.start)
        assert tag is not None, "a parser has read it"
        if tag.group().endswith(b"/>"):
            return tag.end() - 2, tag.end(), f">{text}</{self.tag}>"
        return self.end, self.end, text


@dataclass
class _Property:
    """A list of keywords."""

    container: _Element | None = None
    items: list[str] = field(default_factory=list)


@dataclass
class _Scan:
    """What is found in a sidecar."""

    description: _Element | None = None
    """The first description of the photograph."""
    properties: dict[str, _Property] = field(default_factory=dict)


def _scan(content: bytes) -> _Scan:
    """Find keywords and the places for more; raise `UnusableXMP` for what is no XMP."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableXMP("it is not in UTF-8") from error
    scanner = _Scanner()
    try:
        scanner.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise UnusableXMP(f"it is not well-formed: {error}") from error
    if scanner.found.description is None:
        raise UnusableXMP("it has no rdf:Description")
    return scanner.found


class _Scanner:
    """Follows the elements of a sidecar."""

    def __init__(self) -> None:
        self.found = _Scan()
        self.path: list[str] = []
        self.open: list[_Element] = []
        self.text: list[str] | None = None
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.namespace_prefixes = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.refuse

    def refuse(self, *_: object) -> None:
        """A document type may hide anything behind its entities."""
        raise UnusableXMP("it has a document type, which XMP has not")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        uri, local, prefix = (*name.split(" "), "", "")[:3]
        written = f"{prefix}:{local}" if prefix else local or uri
        element = _Element(written, self.parser.CurrentByteIndex)
        self.path.append(f"{uri} {local}")
        self.open.append(element)
        if self.path[-2:] == [f"{RDF} RDF", f"{RDF} Description"]:
            self.found.description = self.found.description or element
        owner = self._property(-1)
        if owner is not None:
            self.found.properties.setdefault(owner, _Property())
        owner = self._property(-2)
        if owner is not None and self.path[-1] in _CONTAINERS:
            self.found.properties[owner].container = element
        if self._property(-3) is not None and self.path[-1] == f"{RDF} li":
            self.text = []

    def end(self, name: str) -> None:
        owner = self._property(-3)
        if owner is not None and self.text is not None:
            self.found.properties[owner].items.append("".join(self.text))
            self.text = None
        self.open.pop().end = self.parser.CurrentByteIndex
        self.path.pop()

    def characters(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _property(self, depth: int) -> str | None:
        """Return the list of keywords that stands at a depth of the path, if one does."""
        at_home = self.path[depth - 1 : depth] == [f"{RDF} Description"]
        name = self.path[depth] if len(self.path) >= -depth else ""
        return name if at_home and name in (SUBJECT, HIERARCHICAL) else None


def _text(word: str) -> str:
    """Return a keyword as it stands in XML, without characters that XML has not."""
    return escape(_NOT_XML.sub("", word))


# Tags into `.xmp` files beside photographs; the photographs themselves are never written to.


class Sidecars:
    """Writes the sidecars of photographs, one after the other.

    Parameters
    ----------
    by_stem : `a.xmp` beside `a.jpg`, as Adobe's programs have it; otherwise `a.jpg.xmp`, as
        darktable and digiKam do.
    with_label : whether the class becomes a keyword too, unless it is unsure.
    dry_run : only say what would be written.
    """

    def __init__(self, *, by_stem: bool = False, with_label: bool = False, dry_run: bool = False):
        self.by_stem, self.with_label, self.dry_run = by_stem, with_label, dry_run
        self._owners: dict[str, str] = {}
        """Of every sidecar the photograph, both by the names they have without links."""

    def path_of(self, photograph: str) -> Path:
        """Return the sidecar of a photograph."""
        path = Path(photograph)
        return path.with_suffix(".xmp") if self.by_stem else path.with_name(f"{path.name}.xmp")

    def keywords_of(self, prediction: "Prediction", top: int | None = None) -> list[str]:
        """Return the keywords of a photograph."""
        keywords = [tag for tag, _ in tags_of(prediction, top)]
        if self.with_label and prediction.label is not None and not prediction.unsure:
            keywords.insert(0, prediction.label)
        return list(dict.fromkeys(keywords))

    def write(self, prediction: "Prediction", top: int | None = None) -> str:
        """Add the keywords of a photograph to its sidecar; return what was done, "" if nothing.

        Raises
        ------
        StorageError : the sidecar belongs to another photograph too, is damaged, or cannot be
            written. It is then as it was before.
        """
        from supdocnade.storage import write_atomically

        path, keywords = self.path_of(prediction.name), self.keywords_of(prediction, top)
        real = os.path.realpath(prediction.name)
        owner = self._owners.setdefault(os.path.realpath(path), real)
        if owner != real:
            raise StorageError(f"{path} would hold the keywords of {owner} and {prediction.name}.")
        try:
            before = path.read_bytes() if os.path.lexists(path) else None
            after = new_packet(keywords) if before is None else add_keywords(before, keywords)
            known = [] if before is None else read_keywords(before)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        except UnusableXMP as error:
            raise StorageError(f"{path} stays as it is: {error}.") from error
        if not keywords or after == before:
            return ""
        if not self.dry_run:
            write_atomically(Path(os.path.realpath(path)), after)
        added = ", ".join(word for word in keywords if word not in known)
        return f"{'would write' if self.dry_run else 'wrote'} {path}: {added}"
