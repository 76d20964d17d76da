"""Ratings out of answers: the rules of Chiang and Lee, appendix D.2.1, and what they leave to the reader.

1. What repeats the scale is removed: "1-5", "out of 5", "/5" (D.2.1), also "1 to 5", "with 1 being the lowest", and the
   rubric's own phrases such as "title 1".
2. The first number is the rating (D.2.1), if it is a point of the scale and stands there as a plain number. A range
   ("3-4"), another scale ("4/10"), a bound ("at least 3"), "4th", "four" give no rating.
3. Where other numbers follow, the first one counts only if its sentence says that it is the rating, and no other one
   does. D.2.1 would read 2 in "There are 2 errors; I give it a 4".

What gives no rating is reported with the reason; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from carp.evaluation.judging.scales import Scale

RATED = "\0"  # stands where "/5" or "out of 5" was: the number before it is a rating
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBER = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?")
LIST_ITEM = re.compile(r"^\s*\d+[.)](?=\s)", re.MULTILINE)
VERB = r"(?:rat(?:e|ed|ing)|scor(?:e|ed|ing)|grade|give|gave|assign|answer)"
SAYS_RATING = re.compile(rf"\b{VERB}\b[^.!?;,\n\d]*$", re.IGNORECASE)
IN_WORDS = re.compile(
    rf"\b(?:rat(?:e|ed|ing)|score[ds]?|grade)\b[^.!?;,\n\d]*\b(?:an?|as|of|is|it|:)\s+(?:{'|'.join(WORDS)})\b"
    rf"|\b(?:{'|'.join(WORDS)})\s*{RATED}",
    re.IGNORECASE,
)
ANY_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
REFUSES = re.compile(
    r"\bI(?:['’]m| am)?\s+(?:\w+\s+){0,2}?"
    r"(?:cannot|can not|can['’]t|unable to|not able to|won['’]t|will not|must decline|decline|refuse)\b"
    r"[^.!?\n]*\b(?:rat|give|assign|provid|evaluat|assess|judg|scor|answer|assist|help|comply|continu|fulfil|engag)",
    re.IGNORECASE,
)
HEDGES = re.compile(
    r"\bas an? (?:AI|artificial|(?:large )?language model)|\bI(?:['’]m| am) (?:just |only )?an? (?:AI|language model)"
    r"|\bI(?:['’]m| am) sorry|\bI apologi[sz]e|\bI do(?:n['’]t| not) have (?:the ability|personal|feelings|emotions)",
    re.IGNORECASE,
)
BOUND = re.compile(
    r"(?:\bnot|n['’]t|\b(?:less|more|higher|lower|better|worse|fewer|greater) than|\bat (?:least|most)"
    r"|\b(?:over|under|above|below|beyond|up to|almost|nearly))\s+(?:an?\s+)?$",
    re.IGNORECASE,
)
FILLER = r"(?:(?:an?|maybe|perhaps|even|possibly)[ \t]+)*"
RANGE = re.compile(rf"[ \t]*,?[ \t]*(?:[-–—~]|\b(?:to|or)\b)[ \t]*{FILLER}\d", re.IGNORECASE)
OTHER_SCALE = re.compile(r"[ \t]*(?:/[ \t]*\d|out of\b)", re.IGNORECASE)
ATTACHED_BEFORE = re.compile(r"(?:\w|\w[-'’.:]|[$€£#])$")
ATTACHED_AFTER = re.compile(r"\w|[ \t]*[%½¼¾]|[-'’:]\w|\+")


class Reading(NamedTuple):
    """The rating in an answer, or ``None`` and the reason why there is none."""

    rating: float | None
    reason: str = ""


class AnswerReader:
    """Reads ratings on one scale.

    Args:
        scale: its points are the whole numbers from its minimum to its maximum.
        ignore: phrases with numbers that are no ratings.
        halves: also take 4.5 and the like, as the paper does (D.2.1: "we do not drop the 0.5").
    """

    def __init__(self, scale: Scale, ignore: Sequence[str] = (), halves: bool = False) -> None:
        self._scale, self._halves = scale, halves
        self._noise, self._marks = _scale_phrases(scale, ignore)

    def read(self, answer: str) -> Reading:
        """The rating that an answer gives."""
        text = re.sub(r"(?s)^.*</think>", "", answer).replace(RATED, "").strip()
        if not text:
            return Reading(None, "empty")
        if text.startswith("<think>"):
            return Reading(None, "unfinished thought")
        if REFUSES.search(text):
            return Reading(None, "refusal")
        text = self._without_scale(text)
        numbers = list(NUMBER.finditer(text))
        if HEDGES.search(text) and not any(_says_rating(number) for number in numbers):
            return Reading(None, "refusal")
        if IN_WORDS.search(text) or (not numbers and ANY_WORD.search(text)):
            return Reading(None, "number in words")
        return self._first(numbers) if numbers else Reading(None, "no number")

    def _without_scale(self, text: str) -> str:
        text = re.sub(r"[*_`]", "", text)
        if len(LIST_ITEM.findall(text)) > 1:
            text = LIST_ITEM.sub("", text)
        return self._marks.sub(RATED, self._noise.sub(" ", text))

    def _first(self, numbers: list[re.Match[str]]) -> Reading:
        first = numbers[0]
        if reason := _irregular(first):
            return Reading(None, reason)
        value = _value(first)
        if not (value.is_integer() or (self._halves and (2 * value).is_integer())):
            return Reading(None, "not a whole number")
        if not self._scale.minimum <= value <= self._scale.maximum:
            return Reading(None, "not on the scale")
        if any(_value(number) != value for number in numbers):
            rated = {_value(number) for number in numbers if _says_rating(number)}
            if rated != {value} or not _says_rating(first):
                return Reading(None, "several numbers")
        return Reading(value)


def _scale_phrases(scale: Scale, ignore: Sequence[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    low, high = scale.minimum, scale.maximum
    end = rf"(?<![\d.])(?:{low}|{high})"
    noise = [
        *(rf"(?<!\w){re.escape(phrase)}(?!\w)" for phrase in ignore),
        rf"(?<![\d.]){low}\s*(?:[-–—]|to)\s*{high}(?![\d]|\.\d)",
        rf"{end}\s*(?:being|meaning|means|represents|representing|=)\s*(?:the\s+)?(?:lowest|highest|worst|best|strongly)",
        rf"(?<!\d){high}[- ]point\b",
    ]
    word = f"|{WORDS[high]}" if high < len(WORDS) else ""
    marks = rf"\s*(?:/\s*|\bout of (?:a (?:possible |maximum of )?)?)(?:{high}(?!\d|\.\d){word})"
    return re.compile("|".join(noise), re.IGNORECASE), re.compile(marks, re.IGNORECASE)


def _says_rating(number: re.Match[str]) -> bool:
    before, after = number.string[: number.start()], number.string[number.end() :]
    return not re.search(r"\w", before) or after.startswith(RATED) or SAYS_RATING.search(before) is not None


def _irregular(number: re.Match[str]) -> str:
    before, after = number.string[: number.start()], number.string[number.end() :]
    if RANGE.match(after) or (re.search(r"\bbetween\s+$", before, re.IGNORECASE) and re.match(r"\s+and\b", after)):
        return "range"
    if OTHER_SCALE.match(after):
        return "another scale"
    if BOUND.search(before):
        return "bound"
    if re.search(r"(?:^|[\s(:])[-−]$", before):
        return "not on the scale"
    return "not a plain number" if ATTACHED_BEFORE.search(before) or ATTACHED_AFTER.match(after) else ""


def _value(number: re.Match[str]) -> float:
    text = number[0]
    grouped = re.fullmatch(r"\d+(?:,\d{3})+(?:\.\d+)?", text)
    return float(text.replace(",", "" if grouped else "."))
