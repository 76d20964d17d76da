"""Judging: a language model rates stories on Likert scales (Chiang and Lee, "Can Large Language Models Be an
Alternative to Human Evaluation?").

1. Each story gets one query per scale, and each query as many answers as raters are wanted, each with its own seed.
2. What the cache knows is not asked. Each new answer is in the cache before the next step of its worker.
3. Ratings are read out of the answers, and everything is written in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from carp.errors import InputError
from carp.evaluation.judging.asking import (
    Backend,
    Question,
    Reply,
    Sampling,
    UnansweredError,
    make_question,
    question_key,
)
from carp.evaluation.judging.cache import CACHE, AnswerCache, answer_cache
from carp.evaluation.judging.parsing import AnswerReader, Reading
from carp.evaluation.judging.prompts import checked_persona, fill_query
from carp.evaluation.judging.scales import Rubric, Scale, load_rubric
from carp.evaluation.judging.stories import RatedStory, read_rated_stories


@dataclass(frozen=True)
class JudgeOptions:
    """What is asked, and how often.

    Attributes:
        rubric: a bundled one (``stories``, ``news``, ``confederacy``) or a YAML file.
        attributes: scales of the rubric; all by default.
        answers: to each query; they stand for raters.
        sampling: how answers are drawn.
        seed: of all answers.
        persona: put the rubric's persona before each query.
        explain: ask for an explanation after each query.
        halves: take 4.5 for a rating, as the paper does.
        cache: the file that keeps answers.

    Raises:
        InputError: names the option that is out of range.
    """

    rubric: str = "stories"
    attributes: Sequence[str] = ()
    answers: int = 3
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    persona: bool = False
    explain: bool = False
    halves: bool = False
    cache: str = CACHE

    def __post_init__(self) -> None:
        if self.answers < 1:
            raise InputError(f"--answers {self.answers}: give at least 1 answer per question")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give 0 or more")


@dataclass(frozen=True)
class Answer:
    """One answer: about a story, on a scale, by rater ``number`` (1, 2, ...), and the rating in it.

    ``fresh`` says that it was asked for in this run, not found in the cache.
    """

    story: RatedStory
    scale: Scale
    number: int
    question: Question
    reply: Reply
    reading: Reading
    fresh: bool


@dataclass(frozen=True)
class Judgement:
    """All answers, in the order of stories, scales and numbers, and what they were made with."""

    rubric: Rubric
    scales: list[Scale]
    stories: list[RatedStory]
    answers: list[Answer]
    options: JudgeOptions
    backend: dict[str, Any]

    @property
    def replies(self) -> list[Answer]:
        """One answer for each question: equal stories share their questions."""
        return list({answer.question: answer for answer in self.answers}.values())


@dataclass(frozen=True)
class Plan:
    """What is going to be asked."""

    rubric: Rubric
    scales: list[Scale]
    stories: list[RatedStory]
    asked: list[tuple[RatedStory, Scale, Question]]


def make_plan(stories: str | Path, options: JudgeOptions) -> Plan:
    """Read the rubric and the stories, and write the queries.

    Raises:
        InputError: names the file, the row, the field and the mend.
    """
    rubric = load_rubric(options.rubric)
    scales = rubric.chosen(list(options.attributes))
    if options.persona:
        checked_persona(rubric)
    read = read_rated_stories(stories, rubric, scales)
    asked = []
    for story in read:
        for scale in scales:
            query = fill_query(rubric, scale, story.texts, persona=options.persona, explain=options.explain)
            asked += [(story, scale, make_question(query, n, options.seed)) for n in range(1, options.answers + 1)]
    return Plan(rubric, scales, read, asked)


def judge(plan: Plan, options: JudgeOptions, backend: Backend, progress: bool = False) -> Judgement:
    """Ask what the cache does not know, and read the ratings.

    Args:
        plan: of :func:`make_plan`, with the same options.
        options: what is asked, and how often.
        backend: what answers.
        progress: show a bar on stderr.

    Raises:
        CarpError: if questions are left without an answer; those that came are kept in the cache.
    """
    questions = list(dict.fromkeys(question for _, _, question in plan.asked))
    with answer_cache(options.cache) as cache:
        replies, fresh = _replies(questions, plan, options, backend, cache, progress)
    readers = {scale.name: AnswerReader(scale, plan.rubric.ignore, options.halves) for scale in plan.scales}
    answers = []
    for story, scale, question in plan.asked:
        reply = replies[question]
        reading = _reading(readers[scale.name], reply)
        answers.append(Answer(story, scale, question.answer, question, reply, reading, question in fresh))
    return Judgement(plan.rubric, plan.scales, plan.stories, answers, options, backend.about)


def _replies(
    questions: list[Question],
    plan: Plan,
    options: JudgeOptions,
    backend: Backend,
    cache: AnswerCache,
    progress: bool,
) -> tuple[dict[Question, Reply], set[Question]]:
    keys = {question: question_key(backend.identity, options.sampling, question) for question in questions}
    found = {question: reply for question in questions if (reply := cache.get(keys[question])) is not None}
    fresh: set[Question] = set()
    total = len(questions)
    with tqdm(total=total, initial=len(found), unit="answer", desc="judging", disable=not progress) as bar:

        def keep(question: Question, reply: Reply) -> None:
            cache.put(keys[question], reply)
            found[question] = reply
            fresh.add(question)
            bar.update()

        if missing := [question for question in questions if question not in found]:
            try:
                backend.answer(missing, options.sampling, keep)
            except UnansweredError as error:
                raise error.kind(_explained(error, plan, total)) from error
    return found, fresh


def _explained(error: UnansweredError, plan: Plan, total: int) -> str:
    question, reason = error.failures[0]
    story, scale = next((story, scale) for story, scale, asked in plan.asked if asked == question)
    return (
        f"{len(error.failures)} of {total} questions got no answer, the first one about story {story.story_id!r} on "
        f"{scale.name}: {reason}. The answers that came are kept: the same command asks only the rest"
    )


def _reading(reader: AnswerReader, reply: Reply) -> Reading:
    if reply.finish == "content_filter":
        return Reading(None, "refusal")
    return reader.read(reply.text)
