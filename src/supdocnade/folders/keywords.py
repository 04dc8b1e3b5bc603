"""Keywords that photo managers have stored: the tags of photographs, and how `tag` writes them.

A photograph `a.jpg` gets the keywords of the first place that has any: the XMP sidecar
`a.jpg.xmp` (darktable, digiKam), the sidecar `a.xmp` (Lightroom), the XMP packet inside the file,
the IPTC record inside the file. Keywords that `supdocnade tag` wrote are left out.

In an XMP packet keywords are added and removed, and every other byte stays. A packet without any
gets them in `dc:subject`, the bag that most photo managers read, and in `lr:hierarchicalSubject`,
since some read lists with hierarchies alone. In others they are inserted into that bag, and into
`lr:hierarchicalSubject` and `digiKam:TagsList` if they are there, since darktable and digiKam then
read nothing else. A property of our own, `supdocnade:predicted`, names the keywords that come from
a model: photo managers ignore properties that they do not know.

A keyword that is written may have levels, as `Animals|Cats|Tiger`. It is `Tiger` in `dc:subject`,
and has its levels in the lists with hierarchies.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from xml.parsers import expat
from xml.sax.saxutils import escape

from joblib import Parallel, delayed

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import MAX_NAME
from supdocnade.folders.tags import exclude_tags, normalize_tag
from supdocnade.images.decode import read_embedded_keywords
from supdocnade.images.source import is_remote, read_address
from supdocnade.runs import ProgressCallback, no_progress

READING_KEYWORDS = "reading keywords"
"""Stage reported to the progress callback."""

REMOTE_WORKERS = 16
"""Photographs on other file systems whose keywords are read at a time."""

_SIDECAR, _FILE = "XMP sidecars", "the files themselves"


Address = str | os.PathLike[str]

FoundKeywords = tuple[list[str], list[str], list[str]]
"""Keywords of a place that people gave, keywords with levels that they gave, and keywords of a
model that they removed."""


def read_tags(
    photographs: Sequence[Address],
    progress: ProgressCallback = no_progress,
    *,
    sidecars: Collection[str] | None = None,
) -> tuple[list[list[str] | None], list[str], dict[str, str]]:
    """Return the keywords of photographs, None for those without any, notes, and levels.

    Levels, such as Animals|Cats|Tiger, are given by the normalised last level. A keyword that
    occurs with several is left out.

    Parameters
    ----------
    photographs : paths, or addresses of files on other file systems.
    sidecars : paths of all sidecars that exist, as a set. By default, they are looked for.
    """
    find = partial(_find_keywords, sidecars=sidecars)
    tags: list[list[str] | None] = []
    places: Counter[str] = Counter()
    paths: dict[str, set[str]] = {}
    problems: list[str] = []
    found: Iterable[tuple[FoundKeywords, str, list[str]]] = map(find, photographs)
    if any(map(is_remote, photographs)):  # Most of the time is spent waiting for answers.
        workers = Parallel(n_jobs=REMOTE_WORKERS, prefer="threads", return_as="generator")
        found = workers(map(delayed(find), photographs))
    for (keywords, with_levels, _), place, unread in found:
        problems += unread
        if keywords:
            places[place] += 1
        for path in with_levels:
            paths.setdefault(normalize_tag(last_level(path)), set()).add(path)
        tags.append(keywords or None)
        progress(READING_KEYWORDS, len(tags), len(photographs))
    notes = []
    if places:
        counts = " and ".join(f"{count} in {name}" for name, count in sorted(places.items()))
        notes.append(f"keywords are used as tags; photographs with keywords: {counts}.")
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        notes.append(f"keywords are not read: {problems[0]}{more}.")
    levels = {name: next(iter(some)) for name, some in paths.items() if len(some) == 1}
    return tags, notes, levels


def read_settled_keywords(photograph: Address) -> list[str]:
    """Return the keywords that people gave a photograph, and those of a model that they removed.

    They are from all places that `read_tags` looks at; places that cannot be read are passed over.
    """
    found = (*_iter_sidecars(photograph, [], None), *_iter_embedded(photograph, []))
    return [word for (given, _, removed), _ in found for word in (*given, *removed)]


def last_level(keyword: str) -> str:
    """Return a keyword without the levels above it.

    >>> last_level("Animals|Cats|Tiger"), last_level("sky")
    ('Tiger', 'sky')
    """
    return keyword.rpartition("|")[2]


def _find_keywords(
    photograph: Address, sidecars: Collection[str] | None
) -> tuple[FoundKeywords, str, list[str]]:
    """Return the keywords of a photograph, their place, and places that cannot be read."""
    problems: list[str] = []
    places = chain(
        _iter_sidecars(photograph, problems, sidecars), _iter_embedded(photograph, problems)
    )
    found, place = next((each for each in places if each[0][0]), (([], [], []), _FILE))
    return found, place, problems


def _iter_sidecars(
    photograph: Address, problems: list[str], sidecars: Collection[str] | None
) -> Iterator[tuple[FoundKeywords, str]]:
    """Yield the keywords in each sidecar and the kind of the place, in order of precedence."""
    name = os.fspath(photograph)
    for stem in (name, os.path.splitext(name)[0]):
        for ending in (".xmp", ".XMP"):
            sidecar = stem + ending
            exists = os.path.isfile(sidecar) if sidecars is None else sidecar in sidecars
            try:
                if exists:
                    yield _read_packet(read_address(sidecar)), _SIDECAR
            except UnusableXMP as error:
                problems.append(f"{sidecar}: {error}")
            except StorageError as error:
                problems.append(str(error).rstrip("."))


def _iter_embedded(photograph: Address, problems: list[str]) -> Iterator[tuple[FoundKeywords, str]]:
    """Yield the keywords in each part of the file and the kind of the place, in that order."""
    packet, keywords = read_embedded_keywords(photograph)
    try:
        if packet:
            yield _read_packet(packet), _FILE
    except UnusableXMP as error:
        problems.append(f"XMP in {os.fspath(photograph)}: {error}")
    yield (keywords, [], []), _FILE


def _read_packet(content: bytes) -> FoundKeywords:
    lists = _read_lists(content)
    paths, predicted = _paths(lists), lists.pop(PREDICTED, [])
    given = [word for word in read_keywords(content) if word not in predicted and word.strip()]
    with_levels = [path for path in paths if "|" in path and last_level(path) not in predicted]
    return (
        [word for word in given if len(word) <= MAX_NAME],
        [path for path in with_levels if len(path) <= MAX_NAME],
        [word for word in predicted if word not in lists.get(SUBJECT, [])],
    )


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
LR = "http://ns.adobe.com/lightroom/1.0/"
DIGIKAM = "http://www.digikam.org/ns/1.0/"
OWN = "urn:supdocnade:xmp:1.0/"

SUBJECT, PREDICTED = f"{DC} subject", f"{OWN} predicted"
"""Keywords that come from a model."""
LIGHTROOM = f"{LR} hierarchicalSubject"
HIERARCHIES = {LIGHTROOM: "|", f"{DIGIKAM} TagsList": "/"}
"""Lists of keywords within others, as nature|sky, and what is between their levels."""
PROPERTIES = (SUBJECT, *HIERARCHIES, PREDICTED)
_PREFIXES = {DC: "dc", LR: "lr", OWN: "supdocnade"}
_CONTAINERS = {f"{RDF} {kind}" for kind in ("Bag", "Seq", "Alt")}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")

_PACKET = """\
<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="supdocnade">
 <rdf:RDF xmlns:rdf="{rdf}">
  <rdf:Description rdf:about=""{namespaces}>
{lists}
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
_LIST = """\
   <{name}>
    <rdf:Bag>
{items}
    </rdf:Bag>
   </{name}>"""


class UnusableXMP(ValueError):
    """A file is not XMP, or keywords cannot be added to it."""


def new_packet(keywords: list[str], given: Sequence[str] = (), *, predicted: bool = True) -> bytes:
    """Return a packet that holds only keywords: predicted ones, and others that people gave."""
    lists, namespaces = [], ""
    for name in (SUBJECT, LIGHTROOM, *((PREDICTED,) if predicted else ())):
        uri, local = name.split(" ")
        namespaces += f' xmlns:{_PREFIXES[uri]}="{uri}"'
        listed = keywords if name == PREDICTED else [*given, *keywords]
        words = (_escape(_spell(word, name)) for word in listed)
        items = "\n".join(f"     <rdf:li>{word}</rdf:li>" for word in words)
        lists.append(_LIST.format(name=f"{_PREFIXES[uri]}:{local}", items=items))
    return _PACKET.format(rdf=RDF, namespaces=namespaces, lists="\n".join(lists)).encode()


def read_keywords(content: bytes) -> list[str]:
    """Return the keywords in `dc:subject`, or else the last levels of those in a hierarchy."""
    lists = _read_lists(content)
    return lists.get(SUBJECT) or list(dict.fromkeys(map(last_level, _paths(lists))))


def _read_lists(content: bytes) -> dict[str, list[str]]:
    return {name: [word for word, *_ in found] for name, found in _scan(content).items.items()}


def _paths(lists: dict[str, list[str]]) -> list[str]:
    """Return the keywords of the lists with hierarchies, their levels separated by bars."""
    return [
        word.replace(separator, "|")
        for name, separator in HIERARCHIES.items()
        for word in lists.get(name, [])
    ]


def missing_keywords(content: bytes, keywords: list[str]) -> list[str]:
    """Return the keywords that a packet does not have, compared as normalised tags.

    A predicted keyword that is no longer in the other lists was removed by someone: it is not
    missing.
    """
    lists = _read_lists(content)
    # The last level of a keyword, as of nature|sky, is a keyword, too.
    existing = [*chain.from_iterable(lists.values()), *_paths(lists)]
    wanted = {last_level(word): word for word in (_NOT_XML.sub("", each) for each in keywords)}
    missing = exclude_tags(wanted, [*existing, *map(last_level, existing)])
    return [wanted[word] for word in missing]


def add_keywords(
    content: bytes, keywords: list[str], given: Sequence[str] = (), *, predicted: bool = True
) -> bytes:
    """Return a packet with additional keywords; existing ones are not repeated.

    Parameters
    ----------
    given : keywords outside of the packet, which programs do not read where it has some: they are
        added to one that has none.
    predicted : `keywords` come from a model.
    """
    missing = missing_keywords(content, keywords)
    if not missing:
        return content
    scanner = _scan(content)
    has_keywords = any(scanner.items.values())
    insertions: dict[int, tuple[_Element, str]] = {}
    for name in PROPERTIES:
        if name == PREDICTED and not predicted:
            continue
        # In ASCII: a packet may be declared to be in any encoding.
        listed = missing if name == PREDICTED or has_keywords else [*given, *missing]
        spelled = (_escape(_spell(word, name)) for word in listed)
        words = [word.encode("ascii", "xmlcharrefreplace") for word in spelled]
        text = "".join(f'<rdf:li xmlns:rdf="{RDF}">{word.decode()}</rdf:li>' for word in words)
        parent = scanner.containers.get(name)
        if name not in scanner.items:
            if name in HIERARCHIES and (has_keywords or name != LIGHTROOM):
                continue
            uri, local = name.split(" ")
            prefix = _PREFIXES[uri]
            bag = f'<rdf:Bag xmlns:rdf="{RDF}">{text}</rdf:Bag>'
            text = f'<{prefix}:{local} xmlns:{prefix}="{uri}">{bag}</{prefix}:{local}>'
            parent = scanner.description
        if parent is None:
            raise UnusableXMP("it has no place for keywords")
        before = insertions.get(parent.start, (parent, ""))[1]
        insertions[parent.start] = (parent, before + text)
    edits = [_insertion(content, parent, text) for parent, text in insertions.values()]
    return _edit(content, edits)


def remove_keywords(content: bytes, keywords: list[str]) -> bytes:
    """Return a packet without some keywords; a list that becomes empty is removed."""
    scanner = _scan(content)
    edits = []
    for name, items in scanner.items.items():
        words = {_spell(word, name) for word in keywords}
        removed = [(start, end, "") for word, start, end in items if word in words]
        if removed and len(removed) == len(items) and len(scanner.lists[name]) == 1:
            removed = [(*scanner.lists[name][0], "")]
        edits += removed
    return _edit(content, edits)


@dataclass
class _Element:
    """Position of an element in the bytes of a sidecar."""

    tag: str
    """Qualified name as in the file."""
    start: int
    """First byte of the start tag."""
    end: int = -1
    """First byte of the end tag, if there is one."""


def _insertion(content: bytes, parent: _Element, text: str) -> tuple[int, int, str]:
    """Return start and end of the bytes to replace, and the new text, to append to an element."""
    tag = _START_TAG.match(content, parent.start)
    assert tag is not None, "the parser has accepted it"
    if tag.group().endswith(b"/>"):
        return tag.end() - 2, tag.end(), f">{text}</{parent.tag}>"
    return parent.end, parent.end, text


def _edit(content: bytes, edits: list[tuple[int, int, str]]) -> bytes:
    """Replace bytes, given their starts and ends, by new texts."""
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content


def _scan(content: bytes) -> "_Scanner":
    """Parse a sidecar; raise `UnusableXMP` if it is not XMP."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableXMP("it is not in UTF-8") from error
    scanner = _Scanner(content)
    try:
        scanner.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise UnusableXMP(f"it is not XML: {error}") from error
    if scanner.description is None:
        raise UnusableXMP("it has no rdf:Description")
    return scanner


class _Scanner:
    """Parser that finds the keywords of a sidecar, and the elements to which others can be added.

    The lists of keywords are the `PROPERTIES` of a description.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.description: _Element | None = None
        """First description of the photograph."""
        self.items: dict[str, list[tuple[str, int, int]]] = {}
        """Keywords of each list, with the start and the end of their elements."""
        self.lists: dict[str, list[tuple[int, int]]] = {}
        """Start and end of the elements of each list."""
        self.containers: dict[str, _Element] = {}
        """Bag or sequence of each list of keywords."""
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
        """Raise for a document type, whose entities could hide anything."""
        raise UnusableXMP("it has a document type, which XMP does not allow")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        uri, local, prefix = (*name.split(" "), "", "")[:3]
        tag = f"{prefix}:{local}" if prefix else local or uri
        element = _Element(tag, self.parser.CurrentByteIndex)
        self.path.append(f"{uri} {local}")
        self.open.append(element)
        if self.path[-2:] == [f"{RDF} RDF", f"{RDF} Description"]:
            self.description = self.description or element
        if (owner := self._property_at(-1)) is not None:
            self.items.setdefault(owner, [])
        if (owner := self._property_at(-2)) is not None and self.path[-1] in _CONTAINERS:
            self.containers[owner] = element
        if self._property_at(-3) is not None and self.path[-1] == f"{RDF} li":
            self.text = []

    def end(self, name: str) -> None:
        element = self.open.pop()
        element.end = after = self.parser.CurrentByteIndex
        if self.content.startswith(b"</", after):
            after = self.content.index(b">", after) + 1
        if (owner := self._property_at(-1)) is not None:
            self.lists.setdefault(owner, []).append((element.start, after))
        if (owner := self._property_at(-3)) is not None and self.text is not None:
            self.items[owner].append(("".join(self.text), element.start, after))
            self.text = None
        self.path.pop()

    def characters(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _property_at(self, depth: int) -> str | None:
        """Return the list of keywords at a depth of the path, None if there is another element."""
        in_description = self.path[depth - 1 : depth] == [f"{RDF} Description"]
        name = self.path[depth] if len(self.path) >= -depth else ""
        return name if in_description and name in PROPERTIES else None


def _spell(keyword: str, name: str) -> str:
    """Return a keyword as a list has it: with its levels or without."""
    separator = HIERARCHIES.get(name)
    return last_level(keyword) if separator is None else keyword.replace("|", separator)


def _escape(word: str) -> str:
    """Return a keyword as XML text, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("", word))
