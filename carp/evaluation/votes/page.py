"""The evaluation as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carp.data.report.markdown import ABSENT, escape
from carp.data.report.statistics import share
from carp.evaluation.origins import origin_section
from carp.evaluation.votes.bootstrap import Estimate
from carp.evaluation.votes.ceiling import REPEATS
from carp.evaluation.votes.comparison import Comparison
from carp.evaluation.votes.evaluation import Evaluation, Result
from carp.evaluation.votes.measures import MEASURES, best_reviews

RESULTS = ("evaluation.json", "summary.csv", "stories.csv", "distributions.csv", "comparisons.csv")

COMPARED = ("cosine", "kl")  # the paper's two; the others are in comparisons.csv


def page(evaluation: Evaluation, made: Mapping[str, Any]) -> str:
    """The page of an evaluation; ``made`` says how it was made."""
    sections = [
        "# Evaluators against people",
        *_votes(evaluation),
        *_agreement(evaluation),
        *_comparisons(evaluation.comparisons),
        *origin_section(made, made["files"], made["evaluators"], RESULTS),
    ]
    return "\n\n".join(sections) + "\n"


def _votes(evaluation: Evaluation) -> list[str]:
    votes = evaluation.votes
    per_ballot = votes.choices.sum(-1)
    ballots = [int((votes.story == index).sum()) for index in range(len(votes.stories))]
    rows = [
        ["stories", str(len(votes.stories))],
        ["reviews to choose from", str(len(votes.reviews))],
        ["participants", f"{len(votes.participants):,}"],
        ["ballots (a participant on a story)", f"{len(per_ballot):,}"],
        ["ballots per story", f"{min(ballots):,} to {max(ballots):,}"],
        ["votes", f"{int(per_ballot.sum()):,}"],
        ["reviews chosen per ballot, mean", f"{per_ballot.mean():.2f}"],
        ["ballots with a single review", _part(int((per_ballot < 2).sum()), len(per_ballot))],
    ]
    return ["## Votes", table(["", ""], rows), attention(evaluation)]


def attention(evaluation: Evaluation) -> str:
    """What the attention check found, in a sentence."""
    attendance = evaluation.votes.attendance
    if not attendance.checks:
        return "No attention check is among the votes: nobody was left out."
    n = attendance.participants
    return (
        f"Attention check ({', '.join(map(escape, attendance.checks))}): {n:,} participants; left out are those who "
        f"failed it, {_part(attendance.failed, n)}, and who did not answer it, {_part(attendance.unanswered, n)}."
    )


def _part(count: int, n: int) -> str:
    found = share(count, n)
    if found.share is None or found.interval is None:
        return ABSENT
    return f"{count:,} ({100 * found.share:.1f} % [{100 * found.interval[0]:.1f}, {100 * found.interval[1]:.1f}])"


def _agreement(evaluation: Evaluation) -> list[str]:
    head = ["evaluator", *(f"{m.label} {'↑' if m.higher_is_better else '↓'}" for m in MEASURES.values())]
    everyone = (*evaluation.results, evaluation.people)
    rows = [[escape(result.name), *(cell(result.estimates[name]) for name in MEASURES)] for result in everyone]
    notes = "\n".join(f"- {note}" for note in notes_on(evaluation))
    return [
        "## Agreement",
        "Means over the stories with 95 % intervals by bootstrap over participants and stories. The row of the people "
        f"compares random halves of each story's participants ({REPEATS} times): the ceiling, rather too low, as half "
        "the people speak less clearly. Its interval is over stories and splits.",
        table(head, rows),
        "![Box plots of cosine and divergence](figure4.png)",
        notes,
    ]


def notes_on(evaluation: Evaluation) -> list[str]:
    """What a reader of the figures has to know, a sentence each."""
    votes, options = evaluation.votes, evaluation.options
    human = {
        "softmax": "the softmax of the counts of votes, as in the paper",
        "shares": "each review's share of the votes on its story (not the paper's softmax)",
    }[options.human]
    scale = "" if options.temperature == 1 else f" divided by {options.temperature:g}"
    most = evaluation.human.probabilities.max(-1).mean()
    sharpness = ", ".join(f"{escape(r.name)} {r.sharpness:.2f}" for r in evaluation.results)
    tied = int((best_reviews(evaluation.human.scores).sum(-1) > 1).sum())
    notes = [
        f"People's distribution is {human}; evaluators' is the softmax of their scores{scale}.",
        f"Probability of the likeliest review, mean over stories: people {most:.2f}, {sharpness}.",
        f"Several reviews share most votes on {_stories(tied)}; in the top-1 agreement each of them is right, and of "
        "an evaluator's tied best reviews one is drawn.",
    ]
    if len(votes.stories) == 1:
        notes.append("With one story, intervals are over participants alone: nothing is known about other stories.")
    if len(votes.participants) == 1:
        notes.append("With one participant, intervals are over stories alone: nothing is known about other people.")
    if undefined := evaluation.people.estimates["cosine"].undefined:
        notes.append(f"There is no ceiling for {_stories(undefined)}, with a single participant.")
    notes += [note for result in evaluation.results for note in _notes_on(result)]
    return notes


def _notes_on(result: Result) -> list[str]:
    notes = []
    if undefined := result.estimates["spearman"].undefined:
        cause = "the votes or the scores of all reviews are equal"
        notes.append(f"{escape(result.name)}: Spearman is undefined for {_stories(undefined)}: {cause}.")
    if result.tied:
        notes.append(f"{escape(result.name)}: several reviews share the best score on {_stories(result.tied)}.")
    return notes


def _stories(n: int) -> str:
    return f"{n:,} {'story' if n == 1 else 'stories'}"


def cell(found: Estimate) -> str:
    """``0.512 [0.401, 0.630]``, with the stories where they are not all, or that it is undefined."""
    if found.value is None:
        return "undefined"
    interval = "" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"{found.value:.3f}{interval}" + (f", n = {found.n}" if found.undefined else "")


def _comparisons(comparisons: Sequence[Comparison]) -> list[str]:
    if not comparisons:
        return []
    head = ["measure", "first − second", "difference", "better: first, second, equal", "Wilcoxon p", "sign test p"]
    rows = [
        [
            MEASURES[found.measure].label,
            f"{escape(found.first)} − {escape(found.second)}",
            cell(found.difference),
            f"{found.first_better}, {found.second_better}, {found.equal}",
            *(ABSENT if p is None else f"{p:.3g}" for p in (found.wilcoxon_p, found.sign_p)),
        ]
        for found in comparisons
        if found.measure in COMPARED
    ]
    return [
        "## Evaluators two by two",
        "On the same stories and the same resamples. p-values are two-sided, over stories, and not corrected for the "
        f"{len(rows)} comparisons shown; comparisons.csv has those of the other measures.",
        table(head, rows),
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers stand to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
