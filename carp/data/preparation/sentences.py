"""Where sentences begin: rules that need no model, so that a million stories can be cut."""

from __future__ import annotations

import re

_CLOSING = "\"'”’»)\\]*_"
_ABBREVIATIONS = "Mr|Mrs|Ms|Mx|Dr|Prof|St|Sr|Jr|Capt|Col|Gen|Lt|Sgt|Rev|Hon|vs|etc|e\\.g|i\\.e|No|Vol|Fig|p|pp|[A-Z]"
# The end of a sentence, and what parts it from the next one: white space before anything but a lower-case letter.
_END = re.compile(
    rf"[.!?…。！？]+[{_CLOSING}]*(?=\s)\s+(?![a-zà-ÿ,;:])|[。！？]+[{_CLOSING}]*(?=\S)|\n\s*\n\s*|\n(?=\s*[#*\-])"
)
_ABBREVIATION = re.compile(rf"(?:^|[\s(\"'“‘])(?:{_ABBREVIATIONS})\.\s+$")


def sentence_starts(text: str) -> list[int]:
    """Offsets at which sentences begin, the first one 0; paragraphs and headings begin sentences too.

    A wrong one costs little: it is only where a passage may be cut.

    Example:
        >>> sentence_starts('Mr. Poe came in. "Why?" he said. Nobody knew.')
        [0, 17, 33]
    """
    starts = [0]
    for end in _END.finditer(text):
        abbreviated = end.group()[0] == "." and _ABBREVIATION.search(text, max(0, end.start() - 8), end.end())
        if not abbreviated and end.end() < len(text):
            starts.append(end.end())
    return starts
