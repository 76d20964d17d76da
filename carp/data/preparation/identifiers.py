"""Replacing what identifies people beside names: e-mail addresses, URLs, user names and ids."""

from __future__ import annotations

import re
from typing import NamedTuple

EMAIL, URL, USER, ID = "[email]", "[url]", "[user]", "[id]"

_TOP = "com|org|net|edu|gov|io|co|uk|de|fr|me|info|ly|be|gg|tv|app|dev|ai|xyz|eu|ca|au|us"
_PATTERNS = {
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "url": rf"(?:https?|ftp)://[^\s<>\"'”’\])}}]+|\bwww\.[^\s<>\"'”’\])}}]+|(?<![\w@.])(?:[a-z0-9-]+\.)+(?:{_TOP})/"
    rf"[^\s<>\"'”’\])}}]*|(?<![\w@./])(?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|io)(?!\w|\.\w)",
    "user": r"(?<![\w/@])@[A-Za-z_][\w.-]*\w|(?<![\w/.])/?u/[\w-]{2,}",
    "id": r"(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w)"  # UUID
    r"|(?<!\w)(?=[a-fA-F]*\d)(?=\d*[a-fA-F])(?:0x)?[0-9a-fA-F]{8,}(?!\w)"  # hash: hex digits of both kinds
    r"|(?<!\w)(?=(?:[A-Za-z_-]*\d){4})(?=[\d_-]*[A-Za-z])[\w-]{16,}(?!\w)"  # any other long key
    r"|(?<!\w)(?:t[1-6]_[a-z0-9]{5,10})(?!\w)"  # Reddit's
    r"|(?<![\w.,])#?\d{6,}(?![\w]|[.,]\d)"
    r"|(?<![\w.,+(-])(?:\+\d{1,3}[ .-]?)?(?:\(\d{2,4}\)[ .-]?|\d{2,4}[ .-])\d{3,4}[ .-]\d{3,4}(?![\w-])"
    r"|(?<![\w.,+-])0\d(?:[ .-]\d{2}){4}(?![\w-])"
    r"|(?<!\w)\+\d{1,3}[ .-]?\d{4,12}(?!\w)"
    r"|(?<![\w.,-])\d{3}-\d{4}(?![\w-])",
}
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))
_HINT = re.compile(r"@|://|www\.|\w\.\w|u/|\w{8}|\d[\d .()-]{5,}\d|t[1-6]_")
_TRAILING = ".,;:!?…*_"


class Replaced(NamedTuple):
    """A text in which something was replaced, and how often."""

    text: str
    count: int  # type: ignore[assignment]  # a tuple's method of that name is not missed


def mask_identifiers(text: str) -> Replaced:
    """Replace e-mail addresses, URLs, user names and ids by ``[email]``, ``[url]``, ``[user]`` and ``[id]``.

    User names are ``@name``, ``u/name`` and ``/u/name``. Ids are UUIDs, hashes, other long keys with digits, numbers
    of six digits or more without separators, and telephone numbers; years, ordinals and amounts like ``3,000,000``
    stay. Doing it again changes nothing.

    Example:
        >>> mask_identifiers("Thanks /u/jane_doe, see https://example.org/x?id=3.").text
        'Thanks [user], see [url].'
    """
    if not _HINT.search(text):
        return Replaced(text, 0)
    return Replaced(*_ANY.subn(_mask, text))


def _mask(found: re.Match[str]) -> str:
    matched = found.group()
    kind = found.lastgroup
    rest = len(matched.rstrip(_TRAILING)) if kind == "url" else len(matched)
    return f"[{kind}]{matched[rest:]}"
