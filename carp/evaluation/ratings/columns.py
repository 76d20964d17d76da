"""Which column of a file of ratings is what, by the options or by the names in its header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from carp.errors import InputError

NONE = "none"
SUM, MEAN = "sum", "mean"
# Names that are looked for where no option names the column; the first one found is taken.
STORY = ("story", "story_id", "text_id", "item", "item_id", "id")
RATER = ("rater", "rater_id", "participant", "annotator", "judge", "worker")
SYSTEM = ("system", "model", "generator", "source")
GROUP = ("group",)
OVERALL = ("overall", "total")
SCALES = "item_*"
RESERVED = ("pooled", "overall")  # names that the report gives to all scales together


@dataclass(frozen=True)
class Wanted:
    """The columns that the options name; an empty name stands for: find it."""

    story: str = ""
    rater: str = ""
    system: str = ""  # or "none"
    group: str = ""  # or "none"
    scales: str = ""  # names and globs, between commas
    overall: str = ""  # or "sum", "mean": computed from the scales


@dataclass(frozen=True)
class Columns:
    """The columns of a file: one name each, ``None`` where there is none; ``overall`` may be ``sum`` or ``mean``."""

    story: str
    rater: str
    system: str | None
    group: str | None
    scales: tuple[str, ...]
    overall: str
    overall_is_column: bool


def choose_columns(header: Sequence[str], wanted: Wanted, source: str) -> Columns:
    """Find every column.

    Without ``wanted.scales``, the scales are the columns ``item_*`` if there are any, else all that have no other part
    (nor a name of one that ``none`` switched off).

    Raises:
        InputError: names the column that is absent, and the option that names it.
    """
    story = _required(header, wanted.story, STORY, "story", source)
    rater = _required(header, wanted.rater, RATER, "rater", source)
    system = _optional(header, wanted.system, SYSTEM, "system", source)
    group = _optional(header, wanted.group, GROUP, "group", source)
    parts = [name for name in (story, rater, system, group) if name]
    if len(set(parts)) < len(parts):
        raise InputError(f"{source}: one column for two purposes ({', '.join(parts)}); name another by its option")
    overall, is_column = _overall(header, wanted, source)
    if is_column:
        parts.append(overall)
    scales = _scales(header, wanted.scales, parts, source)
    if (is_column or len(scales) > 1) and (taken := set(scales) & set(RESERVED)):
        raise InputError(f"{source}: a scale cannot be called '{taken.pop()}' beside others; rename its column")
    return Columns(story, rater, system, group, scales, overall, is_column)


def _required(header: Sequence[str], name: str, known: Sequence[str], part: str, source: str) -> str:
    found = _optional(header, name, known, part, source)
    if found is None:
        raise InputError(f"{source}: no column for the {part} (columns: {', '.join(header)}); name it with --{part}")
    return found


def _optional(header: Sequence[str], name: str, known: Sequence[str], part: str, source: str) -> str | None:
    if name in header and name:
        return name
    if name and (name != NONE or part in ("story", "rater")):
        raise InputError(f"--{part} {name}: {source} has no such column (columns: {', '.join(header)})")
    return None if name == NONE else next((candidate for candidate in known if candidate in header), None)


def _overall(header: Sequence[str], wanted: Wanted, source: str) -> tuple[str, bool]:
    name, scales = wanted.overall, [scale.strip() for scale in wanted.scales.split(",")]
    if name in (SUM, MEAN) and name not in header:
        return name, False
    found = _optional(header, name, [known for known in OVERALL if known not in scales], "overall", source)
    return (found, True) if found else (SUM, False)


def _scales(header: Sequence[str], wanted: str, parts: Sequence[str], source: str) -> tuple[str, ...]:
    if wanted:
        return tuple(dict.fromkeys(name for one in wanted.split(",") for name in _matching(header, one, parts, source)))
    free = [name for name in header if name not in (*parts, *SYSTEM, *GROUP)]
    scales = [name for name in free if fnmatchcase(name, SCALES)] or free
    if not scales:
        raise InputError(f"{source}: no column is left for a scale (columns: {', '.join(header)}); add one per scale")
    return tuple(scales)


def _matching(header: Sequence[str], pattern: str, parts: Sequence[str], source: str) -> list[str]:
    pattern = pattern.strip()
    found = [pattern] if pattern in header else [name for name in header if fnmatchcase(name, pattern)]
    if not found:
        raise InputError(f"--scales {pattern}: {source} has no such column (columns: {', '.join(header)})")
    if taken := [name for name in found if name in parts]:
        raise InputError(f"--scales {pattern}: the column '{taken[0]}' is no scale, it is used otherwise; leave it out")
    return found
