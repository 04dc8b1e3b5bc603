"""Documents, docstrings, comments, messages and help avoid words that a reader reads twice."""

import io
import re
import tokenize

import pytest
from tests.structure import ROOT, SECTION, documents

RULES = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|better\b|worse\b|less\b)": "is not a",
    r"\bfrom which on\b": "at least x",
    r"\bso (?:many|much|few)\b(?! that\b)": "this many, or the number",
    r"\b(?:of|with) which\b": "two sentences, or whose",
    r"\bfigures\b": "metrics, results, numbers or charts",
    r"(?-i:\bNone: )": "If None, … or By default, …",
}
"""What is not written, and what is written instead."""
FOLDERS = ("benchmarks", "docs", "examples", "experiments", "src", "tools")
CODE = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(path for end in ("html", "js") for path in (ROOT / "src").rglob(f"*.{end}"))


def prose(path):
    """Return the text of a file that people read: no code, addresses or generated sections."""
    text = path.read_text()
    if path.suffix == ".py":
        # Adjacent strings are one sentence; a string of one word is a name.
        kept = (tokenize.COMMENT, tokenize.STRING)
        text = " ".join(
            re.sub(r"^[rbf]*[\"']+|[\"']+$", "", token.string) if token.type in kept else ";"
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.OP or (token.type in kept and " " in token.string)
        )
    elif path.suffix == ".md":
        text = re.sub(SECTION, "", text)
        text = re.sub(r"(?ms)^```.*?^```|(?<=\])\([^)]*\)", "", text)
    return " ".join(re.sub(r"`[^`]*`|\{[^}]*\}|\"[^\" ]* which\"|#", "", text).split())


def complaints(text):
    """Yield a sentence for every place that breaks a rule."""
    for pattern, better in RULES.items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            yield f"…{text[max(0, found.start() - 50) : found.end() + 30]}… Write {better}."


@pytest.mark.parametrize(
    "path", [*documents(), *CODE, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_texts_can_be_read_once(path):
    assert list(complaints(prose(path))) == []


def test_the_rules_find_what_they_forbid():
    assert len(list(complaints("This is no file, one of which has so many figures."))) == 4
    assert list(complaints("There is no file; as many as before are no longer needed.")) == []
