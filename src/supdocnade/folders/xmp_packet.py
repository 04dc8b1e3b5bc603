"""Keywords in XMP packets: reading and adding them, every other byte unchanged.

A new packet has the keywords in `dc:subject`, the bag that every photo manager reads. In an
existing one they are inserted into that bag, and into `lr:hierarchicalSubject` if there is one,
since darktable then reads nothing else.
"""

import re
from dataclasses import dataclass
from xml.parsers import expat
from xml.sax.saxutils import escape

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
    """A file is not XMP, or keywords cannot be added to it."""


def new_packet(keywords: list[str]) -> bytes:
    """Return a sidecar that holds only keywords."""
    items = "\n".join(f"     <rdf:li>{_escape(word)}</rdf:li>" for word in keywords)
    return _PACKET.format(rdf=RDF, dc=DC, items=items).encode()


def read_keywords(content: bytes) -> list[str]:
    """Return the keywords in `dc:subject`."""
    return _scan(content).keywords.get(SUBJECT, [])


def add_keywords(content: bytes, keywords: list[str]) -> bytes:
    """Return a sidecar with additional keywords; existing ones are not repeated."""
    scanner = _scan(content)
    keywords = [_NOT_XML.sub("", word) for word in keywords]
    edits: list[tuple[int, int, str]] = []
    for name in (SUBJECT, HIERARCHICAL):
        exists = name in scanner.keywords
        missing = [word for word in keywords if word not in scanner.keywords.get(name, [])]
        if not missing or (not exists and name == HIERARCHICAL):
            continue
        items = "".join(f'<rdf:li xmlns:rdf="{RDF}">{_escape(word)}</rdf:li>' for word in missing)
        if not exists:
            bag = f'<rdf:Bag xmlns:rdf="{RDF}">{items}</rdf:Bag>'
            items = f'<dc:subject xmlns:dc="{DC}">{bag}</dc:subject>'
        parent = scanner.containers.get(name) if exists else scanner.description
        if parent is None:
            raise UnusableXMP("it has no place for keywords")
        edits.append(_insertion(content, parent, items))
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content


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


def _scan(content: bytes) -> "_Scanner":
    """Parse a sidecar; raise `UnusableXMP` if it is not XMP."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableXMP("it is not in UTF-8") from error
    scanner = _Scanner()
    try:
        scanner.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise UnusableXMP(f"it is not well-formed: {error}") from error
    if scanner.description is None:
        raise UnusableXMP("it has no rdf:Description")
    return scanner


class _Scanner:
    """Parser that finds the keywords of a sidecar, and the elements to which others can be added.

    The lists of keywords are the properties `SUBJECT` and `HIERARCHICAL` of a description.
    """

    def __init__(self) -> None:
        self.description: _Element | None = None
        """First description of the photograph."""
        self.keywords: dict[str, list[str]] = {}
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
            self.keywords.setdefault(owner, [])
        if (owner := self._property_at(-2)) is not None and self.path[-1] in _CONTAINERS:
            self.containers[owner] = element
        if self._property_at(-3) is not None and self.path[-1] == f"{RDF} li":
            self.text = []

    def end(self, name: str) -> None:
        owner = self._property_at(-3)
        if owner is not None and self.text is not None:
            self.keywords[owner].append("".join(self.text))
            self.text = None
        self.open.pop().end = self.parser.CurrentByteIndex
        self.path.pop()

    def characters(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _property_at(self, depth: int) -> str | None:
        """Return the list of keywords at a depth of the path, None if there is another element."""
        in_description = self.path[depth - 1 : depth] == [f"{RDF} Description"]
        name = self.path[depth] if len(self.path) >= -depth else ""
        return name if in_description and name in (SUBJECT, HIERARCHICAL) else None


def _escape(word: str) -> str:
    """Return a keyword as XML text, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("", word))
