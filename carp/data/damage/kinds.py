"""The kinds of damage."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from carp.data.damage import sentences, wording
from carp.data.damage.lists import Part, remarks


@dataclass(frozen=True)
class Kind:
    """A way to damage passages.

    Attributes:
        name: of its remarks in ``lists.yaml``.
        title: what is done.
        damage: takes a passage, a random generator and which word lists to use; gives the damaged passage, not
            longer by whole sentences, or ``None`` where there is too little to damage.
        held_out: kept for probing: no model of this package is trained on it.
    """

    name: str
    title: str
    damage: Callable[[str, Random, Part], str | None]
    held_out: bool = False

    def damaged(self, passage: str, part: Part, seed: int = 0) -> str | None:
        """The damaged passage, always the same one for a seed."""
        rng = Random(zlib.crc32(f"{seed}:{self.name}:{passage}".encode()))
        return self.damage(passage, rng, part)

    def remarks(self, part: Part) -> list[str]:
        """What an editor would say of it."""
        return remarks(self.name, part)


KINDS = (
    Kind("tense", "tense slips", wording.tense),
    Kind("spelling", "spelling mistakes", wording.spelling),
    Kind("imagery", "imagery removed", wording.imagery),
    Kind("told", "feelings told", sentences.told),
    Kind("cliche", "clichés", sentences.cliche),
    Kind("run_on", "run-on sentences", sentences.run_on),
    Kind("references", "confusing references", wording.references),
    Kind("dialogue", "flat dialogue", sentences.dialogue),
    Kind("repetition", "repetition", sentences.repetition),
    Kind("cut_off", "ending cut off", sentences.cut_off),
    Kind("shuffled", "sentences shuffled", sentences.shuffled, held_out=True),
    Kind("monotone", "sentences all begin alike", sentences.monotone, held_out=True),
    Kind("shouting", "exclamation marks", sentences.shouting, held_out=True),
    Kind("adverbs", "too many intensifiers", wording.adverbs, held_out=True),
)
