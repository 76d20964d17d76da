"""What a run has cost and yielded: answers, ratings, tokens, money."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from carp.errors import InputError
from carp.evaluation.judging.run import Answer, Judgement


@dataclass(frozen=True)
class Prices:
    """Of a million tokens, in any currency: of queries and of answers.

    Raises:
        InputError: if one is negative.
    """

    prompt: float
    answer: float

    def __post_init__(self) -> None:
        for name, price in (("prompt", self.prompt), ("answer", self.answer)):
            if not (math.isfinite(price) and price >= 0):
                raise InputError(f"--price-{name} {price}: give the price of a million tokens, 0 or more")


@dataclass(frozen=True)
class Usage:
    """Tokens of questions that were asked, each once; ``uncounted`` of them came without numbers of tokens."""

    questions: int
    prompt_tokens: int
    answer_tokens: int
    uncounted: int
    cost: float | None


def usage(answers: Sequence[Answer], prices: Prices | None) -> Usage:
    """Tokens and cost of answers to different questions. Failed tries are not in it: servers do not count them."""
    replies = [answer.reply for answer in answers]
    prompt = sum(reply.prompt_tokens or 0 for reply in replies)
    written = sum(reply.answer_tokens or 0 for reply in replies)
    cost = None if prices is None else (prompt * prices.prompt + written * prices.answer) / 1e6
    uncounted = sum(reply.prompt_tokens is None or reply.answer_tokens is None for reply in replies)
    return Usage(len(replies), prompt, written, uncounted, cost)


@dataclass(frozen=True)
class Yield:
    """Answers on one scale: ratings among them, and the others by reason; ``cut`` were cut at the longest length."""

    answers: int
    rated: int
    unparsed: dict[str, int]
    cut: int


def yields(judgement: Judgement) -> dict[str, Yield]:
    """What the answers on each scale have yielded."""
    found = {}
    for scale in judgement.scales:
        answers = [answer for answer in judgement.answers if answer.scale.name == scale.name]
        reasons = Counter(answer.reading.reason for answer in answers if answer.reading.rating is None)
        cut = sum(answer.reply.finish == "length" for answer in answers)
        rated = len(answers) - reasons.total()
        found[scale.name] = Yield(len(answers), rated, dict(sorted(reasons.items())), cut)
    return found
