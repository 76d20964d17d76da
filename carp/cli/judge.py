"""``carp judge``: a language model rates stories on Likert scales."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from carp.evaluation.judging.asking import Backend
    from carp.evaluation.judging.counts import Prices

EXAMPLES = """
Examples:

  carp judge --model google/flan-t5-large --stories stories.jsonl --out ratings

  carp judge --model qwen3:8b --server http://127.0.0.1:11434/v1 --rubric confederacy --stories stories.jsonl -o ratings

  carp judge --model gpt-4o --server https://api.openai.com/v1 --price-prompt 2.5 --price-answer 10
  --attributes grammaticality,likability --stories stories.jsonl --people teachers.csv --out ratings

A key is read from the environment variable OPENAI_API_KEY. Interrupted, the same command continues: no question is
asked twice. The tables are README.md in the folder that --out names; carp agree reads its ratings.csv.
"""
MODEL_HELP = "A folder, a GGUF file or a Hub id; with --server the server's name for it."
STORIES_HELP = 'JSON Lines, CSV or Parquet: {"story_id", "story", "prompt" (for relevance), "group"?}.'
RUBRIC_HELP = "stories, news, confederacy, or a YAML file."
PEOPLE_HELP = "People's ratings, for Kendall's tau: one row per story and rater, one column per scale."
CACHE_HELP = "The file that keeps all answers."


def judge_command(
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)],
    stories: Annotated[str, typer.Option(metavar="FILE", help=STORIES_HELP)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; must be new.")],
    server: Annotated[
        str, typer.Option(metavar="URL", help="An OpenAI-compatible server; default: this machine.")
    ] = "",
    attributes: Annotated[str, typer.Option(help="Scales, between commas; default: all of the rubric.")] = "",
    rubric: Annotated[str, typer.Option(help=RUBRIC_HELP)] = "stories",
    answers: Annotated[int, typer.Option(help="Answers to each question, as if by so many raters.")] = 3,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest words.")] = 1.0,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Draw from the likeliest words that make up this share.")
    ] = 0.9,
    max_tokens: Annotated[int, typer.Option(help="Of an answer.")] = 256,
    seed: Annotated[int, typer.Option(help="Another seed, other answers.")] = 0,
    persona: Annotated[bool, typer.Option("--persona", help="Tell the model who it is (3.3.2).")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Ask for an explanation (3.3.2).")] = False,
    halves: Annotated[bool, typer.Option("--halves", help="Take 4.5 for a rating, as the paper does.")] = False,
    people: Annotated[str, typer.Option(metavar="FILE", help=PEOPLE_HELP)] = "",
    revision: Annotated[str, typer.Option(help="Of the model on the Hub.")] = "",
    batch_size: Annotated[int, typer.Option(help="Answers at a time, on this machine.")] = 8,
    concurrency: Annotated[int, typer.Option(help="Requests at a time, to a server.")] = 8,
    timeout: Annotated[float, typer.Option(help="Seconds for an answer of a server.")] = 120.0,
    price_prompt: Annotated[float | None, typer.Option(help="Of a million tokens of queries.")] = None,
    price_answer: Annotated[float | None, typer.Option(help="Of a million tokens of answers.")] = None,
    cache: Annotated[str, typer.Option(metavar="FILE", help=CACHE_HELP)] = "~/.cache/carp/judge.sqlite",
) -> None:
    """Let a language model rate stories, and compare its ratings with each other and with people's."""
    from carp.evaluation.judging.asking import Sampling
    from carp.evaluation.judging.report import check_output, read_people, write_results
    from carp.evaluation.judging.run import JudgeOptions, judge, make_plan

    options = JudgeOptions(
        rubric=rubric,
        attributes=tuple(name.strip() for name in attributes.split(",") if name.strip()),
        answers=answers,
        sampling=Sampling(temperature, top_p, max_tokens),
        seed=seed,
        persona=persona,
        explain=explain,
        halves=halves,
        cache=cache,
    )
    prices = _prices(price_prompt, price_answer)
    check_output(out)
    plan = make_plan(stories, options)
    names = [scale.name for scale in plan.scales]
    rated = read_people(people, names, [story.story_id for story in plan.stories]) if people else None
    backend = _backend(model, server, revision, batch_size, concurrency, timeout)
    judgement = judge(plan, options, backend, progress=sys.stderr.isatty())
    results = write_results(judgement, out, rated, prices)
    for scale, found in results.yields.items():
        print(f"{scale}: {found.rated:,} ratings in {found.answers:,} answers")
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _backend(model: str, server: str, revision: str, batch_size: int, concurrency: int, timeout: float) -> Backend:
    from carp.errors import InputError

    if server and revision:
        raise InputError("--revision: of a model on this machine; a server knows models by their names alone")
    if server:
        from carp.evaluation.judging.server import ServerBackend, ServerOptions

        return ServerBackend(server, model, ServerOptions(concurrency, timeout))
    from carp.evaluation.judging.local import LocalBackend

    return LocalBackend(model, revision, batch_size)


def _prices(prompt: float | None, answer: float | None) -> Prices | None:
    from carp.errors import InputError
    from carp.evaluation.judging.counts import Prices

    if prompt is None and answer is None:
        return None
    if prompt is None or answer is None:
        raise InputError("--price-prompt and --price-answer: give both or none")
    return Prices(prompt, answer)
