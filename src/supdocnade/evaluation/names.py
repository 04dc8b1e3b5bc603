"""Names of classes, tags and files, which may come from anyone, made fit to be shown."""

import unicodedata

_UNPRINTABLE = ("Cc", "Cs", "Cn", "Co")


def plain_name(name: str) -> str:
    """Return a name on one line, without characters that cannot be printed.

    >>> plain_name("rue\\tde\\x00 l'Église")
    "rue de l'Église"
    """
    spaced = "".join(" " if letter.isspace() else letter for letter in name)
    kept = [letter for letter in spaced if unicodedata.category(letter) not in _UNPRINTABLE]
    return "".join(kept).strip() or "?"


def short_name(name: str, most: int) -> str:
    """Return a plain name, cut where it is long.

    >>> short_name("forest\\n" + "x" * 50, 10)
    'forest xx…'
    """
    plain = plain_name(name)
    return plain if len(plain) <= most else plain[: most - 1] + "…"
