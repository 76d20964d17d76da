"""From raw stories to clean pairs: the steps of one task, which sees some stories and nothing else."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from carp.data.preparation.entities import Recognizer
from carp.data.preparation.filters import drop_reason
from carp.data.preparation.identifiers import mask_identifiers
from carp.data.preparation.masking import THRESHOLD, mask_quotes
from carp.data.preparation.names import Names, Suspect
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.passages import Alignment, align
from carp.data.preparation.raw import RawRecord, RawStory, Rejected, parse_story
from carp.data.preparation.story import Span, Story, TokenEnds


class Cleaned(NamedTuple):
    """A text without identifiers and names, and how many were replaced."""

    text: str
    identifiers: int = 0
    names: int = 0


Clean = Callable[[str], Cleaned]


class CleanPair(NamedTuple):
    """A pair as it is written, with what tells where it belongs.

    Attributes:
        alignment: how the passage was found.
        unit: non-negative hash of the story: what stays on one side of the split; of the text alone, so that the
            split depends neither on the order of the stories nor on the others.
        order: non-negative hash of the pair: equal pairs are one, and it shuffles.
        repeat: non-negative hash of the passage.
    """

    passage: str
    critique: str
    alignment: str
    aspect: str | None
    source: str
    topic: str | None
    unit: int
    order: int
    repeat: int


@dataclass
class TaskResult:
    """What a task has made: pairs, rejected records, possible names that were left, and counts."""

    pairs: list[CleanPair] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Preparer:
    """Runs all steps over some records.

    Args:
        options: which steps, and how.
        token_ends: of the encoder's tokenizer.
        recognizer: finds names; ``None`` where they are kept.
    """

    def __init__(self, options: PreparationOptions, token_ends: TokenEnds, recognizer: Recognizer | None) -> None:
        self._options = options
        self._token_ends = token_ends
        self._recognizer = recognizer

    def run(self, records: Sequence[RawRecord]) -> TaskResult:
        """The pairs of some records."""
        result = TaskResult()
        stories = list(self._stories(records, result))
        for story, clean in zip(stories, self._cleaners(stories, result), strict=True):
            for pair in self._pairs(story, clean, result.counts):
                reason = self._drop_reason(pair)
                result.counts[f"dropped: {reason}" if reason else "kept"] += 1
                if not reason:
                    result.pairs.append(pair)
        return result

    def _stories(self, records: Sequence[RawRecord], result: TaskResult) -> Iterator[RawStory]:
        for record in records:
            story, rejected = parse_story(record)
            result.rejected += rejected
            result.counts["rejected"] += len(rejected)
            if story:
                result.counts["stories"] += 1
                result.counts["comments"] += len(story.comments)
                yield story

    def _cleaners(self, stories: Sequence[RawStory], result: TaskResult) -> list[Clean]:
        """For each story a function that replaces its names, and every identifier, in any part of its texts."""
        if self._recognizer is None:
            return [Cleaned] * len(stories)
        texts = [[story.text, *(comment.text for comment in story.comments)] for story in stories]
        entities = iter(self._recognizer.entities([text for group in texts for text in group]))
        cleaners = []
        for group in texts:
            names = Names.of(group, [next(entities) for _ in group])
            cleaners.append(_cleaner(names))
            # In the cleaned texts: what is listed for people to read shall not hold names that were found.
            found = (suspect for text in group for suspect in names.suspects(names.replace(text).text))
            result.suspects += [suspect for suspect in found if not suspect.word[-1].isdigit()]
        return cleaners

    def _pairs(self, story: RawStory, clean: Clean, counts: Counter[str]) -> Iterator[CleanPair]:
        unit = _hash("story", " ".join(story.text.split()))
        measured = None if self._recognizer is None else lambda sentence: clean(sentence).text
        text = Story(story.text, self._token_ends, self._options.budget, measured)
        cleaned: dict[Span, str] = {}
        for comment in story.comments:
            for span, alignment in self._aligned(text, comment.text, comment.offsets):
                counts[f"aligned by {alignment}"] += 1
                raw = story.text[span.start : span.end]
                if span not in cleaned:
                    cleaned[span] = _counted(clean(raw), counts)
                passage = cleaned[span]
                # A comment was aligned by a window because it shares no run of words with its whole story.
                quotes = alignment != "window" or self._options.threshold < THRESHOLD
                critique = self._masked(comment.text, raw, counts) if quotes else comment.text
                if self._recognizer is not None:
                    # Again: where one name now stands for several words, what follows it may be like the passage.
                    critique = self._masked(_counted(clean(critique), counts), passage, counts)
                order, repeat = _hash("pair", f"{passage}\0{critique}"), _hash("passage", passage)
                labels = (comment.aspect, story.source, story.topic)
                yield CleanPair(passage, critique.strip(), alignment, *labels, unit, order, repeat)

    def _aligned(self, story: Story, comment: str, offsets: Span | None) -> list[tuple[Span, Alignment]]:
        if not self._options.align:
            return [(story.beginning(), "beginning")]
        return [(found.span, found.alignment) for found in align(story, comment, offsets)]

    def _masked(self, critique: str, passage: str, counts: Counter[str]) -> str:
        if not self._options.mask:
            return critique
        found = mask_quotes(critique, passage, self._options.threshold)
        counts["masked words"] += found.words
        return found.text

    def _drop_reason(self, pair: CleanPair) -> str | None:
        if not self._options.filter:
            return None
        return drop_reason(pair.passage, pair.critique, self._options.drop_off_topic)


def _hash(kind: str, text: str) -> int:
    digest = hashlib.blake2b(f"{kind}:{text}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little") >> 1


def _counted(cleaned: Cleaned, counts: Counter[str]) -> str:
    counts["identifiers replaced"] += cleaned.identifiers
    counts["names replaced"] += cleaned.names
    return cleaned.text


def _cleaner(names: Names) -> Clean:
    def clean(text: str) -> Cleaned:
        without_ids = mask_identifiers(text)
        without_names = names.replace(without_ids.text)
        return Cleaned(without_names.text, without_ids.count, without_names.count)

    return clean
