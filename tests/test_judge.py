"""``carp judge``: queries letter for letter, no rating guessed, no answer lost, none asked twice, tables by hand."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from conftest import PATIENCE, REPOSITORY
from server_imitation import CUT, HANG, MODEL, NO_CHOICE, NOT_JSON, WRONG_TYPES, ServerImitation, error
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.cli.judge import judge_command
from carp.cli.main import run
from carp.errors import CarpError, InputError
from carp.evaluation.judging.asking import (
    Question,
    Reply,
    Sampling,
    UnansweredError,
    make_question,
    question_key,
)
from carp.evaluation.judging.cache import answer_cache
from carp.evaluation.judging.local import LocalBackend, draw_with_seeds
from carp.evaluation.judging.parsing import AnswerReader
from carp.evaluation.judging.prompts import fill_query
from carp.evaluation.judging.protocol import retry_after
from carp.evaluation.judging.scales import BUNDLED, Scale, load_rubric
from carp.evaluation.judging.server import GIVE_UP, TRIES, ServerBackend, ServerOptions
from carp.evaluation.judging.table import compare_groups, kendall, make_rows, rows_by_group, strength
from carp.evaluation.ratings.agreement import Estimate
from carp.evaluation.ratings.table import Wanted, read_ratings

pytest.importorskip("scipy", reason="needs the extra 'eval'")
pytest.importorskip("openai", reason="needs the extra 'eval'")

PAPERS = REPOSITORY.parent / "shared" / "papers"
STORY = "It was raining. John took an umbrella, and 3 more."
PROMPT = "Write about [STORY] and rain."
FAST = ServerOptions(concurrency=4, timeout=15, first_pause=0.001)
SCALE = Scale(name="likability", question="How?", minimum=1, maximum=5)
Texts = dict[str, str]


# -- queries ------------------------------------------------------------------------------------------


def paper(name: str) -> str:
    path = PAPERS / name
    if not path.exists():
        pytest.skip(f"the paper {name} is not beside this checkout")
    return path.read_text(encoding="utf-8")


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_query_is_built_from_the_story_and_its_prompt() -> None:
    rubric = load_rubric("stories")
    query = fill_query(rubric, rubric.chosen(["relevance"])[0], {"story": STORY, "prompt": PROMPT})
    assert query == (
        "Please rate the story fragment\nThe goal of this task is to rate story fragment.\n\n"
        "Note: Please take the time to fully read and understand the story fragment. We will reject submissions from "
        f"workers that are clearly spamming the task.\n\nStory fragment:\n\n{STORY}\n\n(End of story fragment)\n\n"
        "Now read the PROMPT based on which the story fragment was written.\n\n"
        f"PROMPT: {PROMPT}\n\n(End of PROMPT)\n\n"
        "How relevant is the story fragment to the prompt? (on a scale of 1-5, with 1 being the lowest)"
    )


def test_persona_and_explanation_stand_where_the_paper_puts_them() -> None:
    rubric = load_rubric("stories")
    scale = rubric.chosen(["likability"])[0]
    plain = fill_query(rubric, scale, {"story": STORY})
    both = fill_query(rubric, scale, {"story": STORY}, persona=True, explain=True)
    persona = "(You are a human worker hired to rate the story fragment.)"
    assert both == f"{persona}\n{plain} Please also explain your decision."
    assert plain.endswith("the story fragment? (on a scale of 1-5, with 1 being the lowest)")


@pytest.mark.parametrize("rubric", ["stories", "news"])
def test_every_query_is_the_papers_letter_for_letter(rubric: str) -> None:
    text = words(paper("llm-evaluation.txt"))
    loaded = load_rubric(rubric)
    for scale in loaded.scales:
        assert words(loaded.query(scale)) in text, scale.name
    for sentence in filter(None, (loaded.persona, loaded.explain)):
        assert sentence in text.replace("*", "")


def test_line_breaks_are_the_papers() -> None:
    rubric = load_rubric("stories")
    unbroken = rubric.query(rubric.chosen(["relevance"])[0])  # no page ends in it
    assert unbroken in paper("llm-evaluation.txt")


def test_the_bundled_rubric_is_the_papers_letter_for_letter() -> None:
    text, rubric = paper("confederacy-of-models.txt"), load_rubric("confederacy")
    assert [scale.name for scale in rubric.scales] == [f"item_{i}" for i in range(1, 11)]
    for i, scale in enumerate(rubric.scales, start=1):
        assert f"{i}\t{scale.question}\n" in text
        assert (scale.minimum, scale.maximum) == (1, 10)
    for line in rubric.template.splitlines():
        if line.startswith("- "):
            assert line in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: x\nscales: []", "scales: List should have at least 1 item"),
        (
            "name: x\ntone: y\nscales: [{name: a, minimum: 1, maximum: 5, question: '[STORY]'}]",
            "unknown key tone; known ones are name, source",
        ),
        ("name: x\nscales: [{name: a, question: '[STORY]'}]", "scales.0.minimum is missing"),
        (
            "name: x\nminimum: 5\nmaximum: 1\nscales: [{name: a, question: '[STORY]'}]",
            "maximum 1 must be above minimum 5",
        ),
        ("name: x\nminimum: 1\nmaximum: 5\nscales: [{name: a, question: Good}]", "shows no story; write \\[STORY\\]"),
        (
            "name: x\nminimum: 1\nmaximum: 5\nscales: [{name: a, question: '[STORY] [HERO]'}]",
            "\\[HERO\\] is not among 'fields'",
        ),
        (
            "name: x\nminimum: 1\nmaximum: 5\nscales: [{name: rater, question: '[STORY]'}]",
            "a column of that name already",
        ),
        (
            "name: x\ntemplate: Good?\nminimum: 1\nmaximum: 5\nscales: [{name: a, question: '[STORY]'}]",
            "write \\[QUESTION\\] once",
        ),
        ("- a\n- b", "expected keys such as name and scales"),
        ("name: [", "not readable as YAML"),
    ],
)
def test_a_faulty_rubric_is_explained(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_rubric(path)
    assert str(path) in str(caught.value)


def test_every_bundled_rubric_has_queries_with_a_story() -> None:
    for name in BUNDLED:
        rubric = load_rubric(name)
        assert rubric.name == name
        assert all("story" in rubric.needs(scale) for scale in rubric.chosen([]))


def documented(language: str) -> list[str]:
    text = (REPOSITORY / "docs" / "judging.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_the_documented_rubric_works(tmp_path: Path) -> None:
    (block,) = documented("yaml")
    (tmp_path / "letters.yaml").write_text(block, encoding="utf-8")
    rubric = load_rubric(tmp_path / "letters.yaml")
    texts = {"story": STORY, "addressee": "a friend"}
    query = fill_query(rubric, rubric.scales[1], texts, persona=True, explain=True)
    assert query.startswith(f"You teach letter writing.\nA letter to a friend:\n\n{STORY}\n\nHow clear is the letter?")
    assert query.endswith("(on a scale of 1-7, with 1 being the lowest) Why?")


def test_the_documented_commands_parse() -> None:
    application = typer.Typer()
    application.command()(judge_command)
    lines = "\n".join(documented("bash")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True)[2:] for line in lines if line.startswith("carp judge")]
    assert len(commands) == 4
    for given in commands:
        typer.main.get_command(application).make_context("judge", given)


# -- ratings out of answers ---------------------------------------------------------------------------


def by_the_papers_rules(answer: str) -> float:
    """D.2.1, taken literally."""
    for phrase in ("1-5", "out of 5", "/5"):
        answer = answer.replace(phrase, "")
    found = re.search(r"\d+(?:\.\d+)?", answer)
    assert found
    return float(found[0])


PLAIN = {  # the first four are the paper's, tables 7 to 10
    "I would rate the grammatical correctness of the text of the story fragment as a 4. There are a few errors.": 4,
    "I would rate the fit of the sentences in the story fragment as a 5. The sentences flow well together.": 5,
    "Based on the structure, writing style and plot of the story fragment, I would rate it as 3 in terms of joy.": 3,
    "I would rate the relevance of the story fragment to the prompt as a 1.": 1,
    "4": 4,
    " 2.\n": 2,
    "**3**": 3,
    "4/5": 4,
    "I give a score of 2 out of 5.": 2,
    "On a scale of 1-5, I would give it a 5 because it has 3 strong scenes.": 5,
    "As an AI language model, I do not have feelings, but I would rate it 3.": 3,
    "5 (highest)": 5,
    "4\n- 2 spelling errors": 4,
    "Rating: 4.0": 4,
}


@pytest.mark.parametrize("answer", PLAIN)
def test_plain_answers_give_what_the_papers_rules_give(answer: str) -> None:
    assert AnswerReader(SCALE).read(answer) == (PLAIN[answer], "")
    assert by_the_papers_rules(answer) == PLAIN[answer]


@pytest.mark.parametrize(
    ("answer", "rating"),
    [
        ("On a scale of 1 to 5, with 1 being the lowest, I would rate the text 4.", 4),  # D.2.1 reads 1
        ("On a scale of 1–5 (1 being the lowest and 5 being the highest): 2", 2),
        ("On a 5-point scale I rate it 3.", 3),
        ("4 out of five", 4),
        ("I would give it 3 out of a possible 5.", 3),
        ("1. The style is fine.\n2. The plot is thin.\nRating: 4", 4),
        ("<think>Is it 2? Or 3?</think>4", 4),
        ('{"rating": 4, "errors": 2}', 4),
    ],
)
def test_what_repeats_the_scale_or_thinks_aloud_is_no_rating(answer: str, rating: float) -> None:
    assert AnswerReader(SCALE).read(answer) == (rating, "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>It may be 3", "unfinished thought"),
        ("A fine story.", "no number"),
        ("I am an AI and I do not have the ability to experience enjoyment.", "refusal"),
        ("I'm sorry, but I can't rate this story.", "refusal"),
        ("I cannot rate this text on a scale of 1 to 5.", "refusal"),
        ("As an AI, I find 3 characters in it.", "refusal"),
        ("four out of five", "number in words"),
        ("I'd rate it four.", "number in words"),
        ("I would rate it a four. There are 2 errors.", "number in words"),
        ("3-4", "range"),
        ("3 – 4", "range"),
        ("between 3 and 4", "range"),
        ("I would give it a 3 or a 4.", "range"),
        ("4.5", "not a whole number"),
        ("4,5", "not a whole number"),
        ("3.5/5", "not a whole number"),
        ("0", "not on the scale"),
        ("6", "not on the scale"),
        ("-4", "not on the scale"),
        ("1,000 words", "not on the scale"),
        ("8/10", "another scale"),
        ("3 out of 4", "another scale"),
        ("80%", "not a plain number"),
        ("4th", "not a plain number"),
        ("4+", "not a plain number"),
        ("GPT-4 liked it", "not a plain number"),
        ("at least 3", "bound"),
        ("not a 5 but a 4", "bound"),
        ("There are 2 errors; I give it a 4.", "several numbers"),  # D.2.1 reads 2
        ("I rate it 4. On reflection my rating is 5.", "several numbers"),
    ],
)
def test_what_is_no_clear_rating_is_reported(answer: str, reason: str) -> None:
    assert AnswerReader(SCALE).read(answer) == (None, reason)


def test_half_points_are_ratings_on_request_only() -> None:
    reader = AnswerReader(SCALE, halves=True)
    assert [reader.read(text).rating for text in ("4.5", "3.5/5", "4", "4.25", "5.5")] == [4.5, 3.5, 4, None, None]


def test_each_scale_has_its_own_ends_and_phrases() -> None:
    rubric, news = load_rubric("confederacy"), load_rubric("news")
    ten = AnswerReader(rubric.scales[0], rubric.ignore)
    answers = ("10", "7/10", "7 out of ten", "1-10: 9", "Competent (5-8), so I rate it 6.", "4/5")
    assert [ten.read(text).rating for text in answers] == [10, 7, 7, 9, 6, None]
    title = AnswerReader(news.scales[1], news.ignore)
    assert title.read("News title 1 and news title 2 are identical so I rate a 5 (strongly agree)") == (5, "")


# -- the cache ----------------------------------------------------------------------------------------


def test_a_reply_comes_back_as_it_was(tmp_path: Path) -> None:
    reply = Reply("Gut: 4 – „schön“\n", "stop", 10, None, "m", "2026-11-22T00:00:00+00:00")
    for _ in range(2):  # the second time out of the file of the first
        with answer_cache(tmp_path / "new" / "cache.sqlite") as cache:
            cache.put("a", reply)
            assert cache.get("a") == reply
            assert cache.get("b") is None


def test_everything_that_matters_is_in_the_key() -> None:
    identity = {"backend": "server", "server": "http://a", "model": "m"}
    question = make_question("How?", 1, 0)
    variants = [
        (identity, Sampling(), question),
        *(({**identity, name: "other"}, Sampling(), question) for name in identity),
        *((identity, Sampling(**{name: 0.5}), question) for name in ("temperature", "top_p")),  # type: ignore[arg-type]
        (identity, Sampling(max_tokens=7), question),
        (identity, Sampling(), make_question("How so?", 1, 0)),
        (identity, Sampling(), make_question("How?", 2, 0)),
        (identity, Sampling(), make_question("How?", 1, 5)),
    ]
    assert len({question_key(*variant) for variant in variants}) == len(variants)


def test_answers_have_seeds_of_their_own_that_repeat() -> None:
    seeds = [make_question(prompt, n, seed).seed for prompt in "ab" for n in (1, 2, 3) for seed in (0, 1)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert make_question("a", 1, 0) == make_question("a", 1, 0)


def test_another_file_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be mistaken for one" * 20)
    with pytest.raises(InputError, match="not a cache of answers"), answer_cache(tmp_path / "notes.txt"):
        pass


# -- servers ------------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerImitation]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    imitation = ServerImitation()
    yield imitation
    imitation.stop()


def questions(n: int) -> list[Question]:
    return [make_question(f"Question {i}", 1, 0) for i in range(n)]


def ask(server: ServerImitation, asked: list[Question], options: ServerOptions = FAST) -> dict[Question, Reply]:
    found: dict[Question, Reply] = {}

    def done(question: Question, reply: Reply) -> None:
        assert question not in found
        found[question] = reply

    ServerBackend(server.url, "imitation", options).answer(asked, Sampling(0.7, 0.8, 33), done)
    return found


def test_a_request_carries_all_settings(server: ServerImitation) -> None:
    (question,) = questions(1)
    reply = ask(server, [question])[question]
    assert server.requests[0].body == {
        "model": "imitation",
        "messages": [{"role": "user", "content": "Question 0"}],
        "temperature": 0.7,
        "top_p": 0.8,
        "max_tokens": 33,
        "seed": question.seed,
    }
    assert (reply.text, reply.finish, reply.model) == (f"I rate it {1 + question.seed % 5}.", "stop", MODEL)
    assert (reply.prompt_tokens, reply.answer_tokens) == (100, 10)


def test_through_all_failures_no_answer_is_lost_and_none_asked_twice(server: ServerImitation) -> None:
    failures = [
        error(429, retry_after="0.05"),
        error(500),
        CUT,
        NOT_JSON,
        HANG,
        error(503),
        NO_CHOICE,
        WRONG_TYPES,
    ]
    # Answers in between: no question fails eight times.
    server.failures = [one for failure in failures * 2 for one in (failure, None, None)]
    asked = questions(40)
    found = ask(server, asked, ServerOptions(concurrency=4, timeout=3, first_pause=0.001))
    assert {question: reply.text for question, reply in found.items()} == {
        question: f"I rate it {1 + question.seed % 5}." for question in asked
    }
    assert server.answered() == {(question.prompt, question.seed): 1 for question in asked}
    assert not server.failures


def test_requests_at_a_time_are_bounded_and_many(server: ServerImitation) -> None:
    server.delay = 0.2
    ask(server, questions(12), ServerOptions(concurrency=3, first_pause=0.001))
    assert server.most_at_once == 3


def test_retry_after_is_obeyed_by_all_workers(server: ServerImitation) -> None:
    server.failures, server.delay = [error(429, retry_after="2")], 0.5
    ask(server, questions(8), ServerOptions(concurrency=2, timeout=15, first_pause=0.001))
    times = sorted(asked.time for asked in server.requests)
    early = [t for t in times if t < times[0] + 1.9]
    assert len(early) <= 2 + 1  # the two that were under way, and one that the other worker may have begun meanwhile
    assert len(times) == 9


def test_a_wait_may_be_a_number_or_a_date() -> None:
    assert retry_after({"retry-after": "1.5"}) == 1.5
    found = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert found is not None
    assert 95 < found <= 100
    for text in ("soon", "0", formatdate(0, usegmt=True)):
        assert retry_after({"retry-after": text}) is None
    assert retry_after({}) is None


def test_an_answer_after_a_time_out_counts(server: ServerImitation) -> None:
    server.failures = [HANG]
    assert len(ask(server, questions(1), ServerOptions(timeout=2, first_pause=0.001))) == 1


def test_a_question_that_keeps_failing_is_named_and_the_others_are_answered(server: ServerImitation) -> None:
    server.failures = [error(400, message="too long")]
    asked = questions(5)
    with pytest.raises(UnansweredError, match="too long") as caught:
        ask(server, asked, ServerOptions(concurrency=1, first_pause=0.001))
    assert [question for question, _ in caught.value.failures] == asked[:1]
    assert len(server.answered()) == 4

    server.failures = [error(500)] * TRIES
    with pytest.raises(UnansweredError, match=f"500.*, {TRIES} times"):
        ask(server, asked[:1])


def test_a_server_that_fails_for_all_is_not_asked_for_ever(server: ServerImitation) -> None:
    server.failures = [error(400)] * 100
    with pytest.raises(CarpError, match=f"{GIVE_UP} questions in a row"):
        ask(server, questions(50), ServerOptions(concurrency=1, first_pause=0.001))
    assert len(server.requests) == GIVE_UP


@pytest.mark.parametrize(
    ("failure", "message", "code"),
    [
        (error(401, message="wrong key"), "set OPENAI_API_KEY", 2),
        (error(404, message="no such model"), "knows no model 'imitation'.*/v1", 2),
        (error(429, "insufficient_quota"), "the quota is used up", 1),
        (error(429, retry_after="3600"), "asks to wait for 3600 seconds", 1),
    ],
)
def test_what_will_not_pass_stops_the_run_at_once(
    server: ServerImitation, failure: Any, message: str, code: int
) -> None:
    server.failures = [failure] * 10
    with pytest.raises(CarpError, match=message) as caught:
        ask(server, questions(10), ServerOptions(concurrency=1, first_pause=0.001))
    assert caught.value.exit_code == code
    assert len(server.requests) == 1


def test_answers_under_way_are_kept_when_the_run_stops(server: ServerImitation) -> None:
    server.delay = 0.1
    server.failures = [error(401)]
    found: list[Question] = []
    with pytest.raises(InputError, match="key"):
        ServerBackend(server.url, "m", ServerOptions(concurrency=3)).answer(
            questions(9), Sampling(), lambda question, reply: found.append(question)
        )
    assert len(found) == 2
    assert len(server.requests) == 3


def test_a_filter_is_a_refusal_of_the_story_not_a_failure(server: ServerImitation) -> None:
    server.failures = [error(400, "content_filter")]
    (reply,) = ask(server, questions(1)).values()
    assert (reply.text, reply.finish) == ("", "content_filter")


def test_a_server_that_is_not_there_is_named_soon(server: ServerImitation) -> None:
    server.stop()
    with pytest.raises(InputError, match=f"--server {server.url}: cannot be reached.*is it running"):
        ask(server, questions(3))


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a/v1", "http://", "http://a:99999/v1"])
def test_an_address_has_to_be_one(url: str) -> None:
    with pytest.raises(InputError, match="give an address such as"):
        ServerBackend(url, "m")


def test_an_address_holds_no_secrets() -> None:
    with pytest.raises(InputError, match="put the key into OPENAI_API_KEY") as caught:
        ServerBackend("http://me:secret@host/v1", "m")
    assert "secret" not in str(caught.value)


# -- models on this machine ---------------------------------------------------------------------------


def save_model(folder: Path, tokenizer: PreTrainedTokenizerBase, kind: str, seed: int = 0, **settings: Any) -> str:
    """A tiny language model with random weights, wide enough that its answers differ."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, "bos_token_id": 0, "pad_token_id": 1}
    if kind == "gpt2":
        model: Any = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=400, **sizes))
    else:
        widths = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
        model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=1, **widths, **sizes))
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(params=["gpt2", "t5"])
def local_model(request: pytest.FixtureRequest, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> str:
    return save_model(tmp_path / "model", tokenizer, request.param)


def answers_of(backend: LocalBackend, asked: list[Question], sampling: Sampling) -> list[str]:
    found: dict[Question, Reply] = {}
    backend.answer(asked, sampling, found.__setitem__)
    assert [found[question].finish for question in asked]
    return [found[question].text for question in asked]


def several(texts: list[str], seed: int = 0) -> list[Question]:
    return [make_question(text, n, seed) for text in texts for n in (1, 2, 3)]


def test_answers_differ_by_seed_and_repeat_in_any_batch(local_model: str) -> None:
    sampling = Sampling(1.0, 0.9, 12)
    asked = several(["It was raining.", "John took an umbrella, and went out into the rain.", "Why?"])
    found = answers_of(LocalBackend(local_model), asked, sampling)
    assert len(set(found)) == len(found)
    for size in (1, 4):
        assert answers_of(LocalBackend(local_model, batch_size=size), asked, sampling) == found
    assert answers_of(LocalBackend(local_model), asked[4:5], sampling) == found[4:5]
    assert not set(answers_of(LocalBackend(local_model), several(["It was raining."], seed=1), sampling)) & set(found)


def test_at_temperature_0_an_answer_is_the_likeliest_words(local_model: str) -> None:
    backend = LocalBackend(local_model)
    asked = [make_question("It was raining.", n, 0) for n in (1, 2)]
    found = answers_of(backend, asked, Sampling(0, 0.9, 6))
    ids = torch.tensor([backend._tokenizer("It was raining.")["input_ids"]])
    written = torch.tensor([[1]]) if backend._encoder_decoder else ids
    for _ in range(6):  # word by word, without a cache
        inputs = (
            {"input_ids": ids, "decoder_input_ids": written} if backend._encoder_decoder else {"input_ids": written}
        )
        with torch.no_grad():
            best = backend._model(**inputs).logits[:, -1:].argmax(-1)
        written = torch.cat([written, best], 1)
    expected = written[0, 1 if backend._encoder_decoder else ids.shape[1] :]
    assert found == [backend._tokenizer.decode(expected, skip_special_tokens=True)] * 2


def test_draws_follow_temperature_and_top_p() -> None:
    logits, sampling, rows = torch.tensor([3.0, 2.0, 1.0, 0.5, -2.0]), Sampling(0.7, 0.9, 1), 20_000
    scores = draw_with_seeds(sampling, range(rows))(torch.zeros(rows, 1, dtype=torch.long), logits.repeat(rows, 1))
    shares = np.bincount(scores.argmax(1).numpy(), minlength=5) / rows
    nucleus = torch.softmax(logits[:2] / 0.7, 0).numpy()  # 0.76 and 0.18 of the whole: together beyond 0.9
    np.testing.assert_allclose(shares[:2], nucleus, atol=4 * 0.5 / rows**0.5)
    assert shares[2:].sum() == 0


def test_settings_that_a_model_brings_along_do_not_bend_its_answers(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    plain = save_model(tmp_path / "plain", tokenizer, "gpt2")
    bent = save_model(tmp_path / "bent", tokenizer, "gpt2", do_sample=True, no_repeat_ngram_size=1)
    asked = several(["It was raining."])
    long = Sampling(max_tokens=100)  # words repeat in it
    assert answers_of(LocalBackend(bent), asked, long) == answers_of(LocalBackend(plain), asked, long)


def test_a_model_is_known_by_its_content(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    first = save_model(tmp_path / "a", tokenizer, "gpt2")
    same = save_model(tmp_path / "b", tokenizer, "gpt2")
    other = save_model(tmp_path / "c", tokenizer, "gpt2", seed=1)
    identities = [LocalBackend(name).identity for name in (first, same, other)]
    assert identities[0] == identities[1] != identities[2]


def test_a_chat_template_is_used_where_there_is_one(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", tokenizer, "gpt2")
    backend = LocalBackend(folder)
    assert backend.about["asked with"] == "the bare query"
    plain = backend._tokens("Why?")
    backend._tokenizer.chat_template = "{% for m in messages %}User: {{ m['content'] }}{% endfor %} Judge:"
    backend._tokenizer.save_pretrained(folder)
    chatting = LocalBackend(folder)
    assert chatting.about["asked with"] == "the model's chat template"
    assert chatting._tokenizer.decode(chatting._tokens("Why?")) == "User: Why? Judge:"
    assert backend.identity != chatting.identity
    assert plain != chatting._tokens("Why?")


def test_no_model_by_that_name() -> None:
    with pytest.raises(InputError, match="--model nowhere: no such folder"):
        LocalBackend("nowhere")


# -- the table ----------------------------------------------------------------------------------------


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


GRADES = {  # story: three answers
    "h1": (4, 4, 4),
    "h2": (5, 4, 5),
    "h3": (3, 4, 2),
    "h4": (5, 5, 5),
    "m1": (2, 2, 2),
    "m2": (1, 2, 3),
    "m3": (3, 3, 4),
}


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    rows = [
        {"story_id": story, "rater": f"answer-{i}", "likability": grade}
        for story, grades in GRADES.items()
        for i, grade in enumerate(grades, start=1)
    ]
    wanted = Wanted(story="story_id", rater="rater", system="none", group="none", scales="likability", overall="mean")
    return read_ratings(write_csv(tmp_path / "ratings.csv", rows), wanted)


GROUPS = {story: "human" if story.startswith("h") else "model" for story in GRADES}


def test_means_spread_and_agreement_are_those_of_single_ratings(graded: Any) -> None:
    rows = {row.group: row for row in make_rows("judge", graded, rows_by_group(graded, GROUPS), 0)}
    assert list(rows) == ["human", "model", "all stories"]
    human = np.concatenate([GRADES[story] for story in GRADES if story.startswith("h")])
    assert rows["human"].summary.mean == pytest.approx(human.mean())
    assert rows["human"].summary.std == pytest.approx(human.std(ddof=1))
    assert (rows["human"].summary.n, rows["human"].summary.stories) == (12, 4)
    assert rows["human"].all_equal.value == pytest.approx(2 / 4)
    assert rows["model"].all_equal.value == pytest.approx(1 / 3)
    assert rows["all stories"].summary.n == 21


def test_groups_are_compared_by_welchs_test(graded: Any) -> None:
    from scipy.stats import ttest_ind

    tests = compare_groups(graded, rows_by_group(graded, GROUPS))
    sides = {name: [GRADES[story] for story in GRADES if GROUPS[story] == name] for name in ("model", "human")}
    for kind, cases in (("ratings", np.ravel), ("story means", lambda side: np.mean(side, axis=1))):
        (test,) = tests[kind]
        expected = ttest_ind(cases(sides["model"]), cases(sides["human"]), equal_var=False)
        assert (test.system, test.reference, test.scores) == ("model", "human", "likability")
        assert (test.t, test.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
        assert test.n == len(cases(sides["model"]))


def test_other_than_two_groups_are_not_compared(graded: Any) -> None:
    three = GROUPS | {"m3": "poet"}
    for groups in (three, dict.fromkeys(GROUPS)):
        assert compare_groups(graded, rows_by_group(graded, groups)) == {}


def test_kendalls_tau_counts_pairs_and_ties() -> None:
    from scipy.stats import kendalltau

    left, right = [11 / 3, (4 + 4 + 3) / 3, 2.0, 5.0, 1.0], [3.0, 3.0, 2.0, 4.0, 2.0]
    found = kendall(left, right, seed=0)
    # Of ten pairs, eight are concordant; one is tied on both sides, one on the right only: 8 / sqrt(9 * 8).
    assert found.value == pytest.approx(8 / 72**0.5)
    assert found.p == pytest.approx(kendalltau([3, 3, 2, 4, 1], [2, 2, 1, 3, 1]).pvalue)
    assert found.bootstrap is None or found.bootstrap[0] <= found.value <= found.bootstrap[1]


def test_kendalls_tau_of_nothing_to_order_is_not_defined() -> None:
    assert kendall([1.0], [2.0], 0).undefined == "fewer than two stories"
    assert kendall([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], 0).undefined == "one side is constant"


def test_strengths_are_those_of_footnote_4() -> None:
    taus = [Estimate(value, 200, 200, p=p) for value, p in ((0.09, 0.04), (-0.14, 0), (0.2, 0), (0.38, 0), (0.6, 0.2))]
    assert [strength(tau) for tau in taus] == ["very weak", "weak", "moderate", "strong", ""]
    assert strength(Estimate(None, 1, 1)) == ""


# -- the command --------------------------------------------------------------------------------------

STORIES = [
    {"story_id": "h1", "story": "It was raining.", "prompt": "Rain", "group": "human"},
    {"story_id": "h2", "story": "John took an umbrella.", "prompt": "Rain", "group": "human"},
    {"story_id": "m1", "story": "Nobody saw him leave.", "prompt": "Departure", "group": "model"},
    {"story_id": "m2", "story": "The ship sailed at dawn.", "prompt": "Departure", "group": "model"},
]
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Runs ``carp judge WORDS...`` in a folder with ``stories.jsonl``: exit code and what was printed on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("carp.evaluation.judging.table.RESAMPLES", 50)
    write_stories(STORIES)
    application = typer.Typer(pretty_exceptions_enable=False)
    application.command()(judge_command)

    def invoke(*given: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["carp judge", *given, "--cache", "cache.sqlite"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run(application)
        return caught.value.code if isinstance(caught.value.code, int) else 0, capsys.readouterr().err

    return invoke


def write_stories(stories: list[dict[str, Any]]) -> None:
    Path("stories.jsonl").write_text("".join(json.dumps(story) + "\n" for story in stories), encoding="utf-8")


def at(server: ServerImitation, out: str = "out", *more: str) -> list[str]:
    return ["--model", "m", "--server", server.url, "--stories", "stories.jsonl", "--out", out, *more]


def by_story(prompt: str, seed: int) -> str:
    """People's stories are rated 4 or 5, models' 1 or 2, enjoyment not at all."""
    if "enjoyable" in prompt:
        return "I am an AI and I do not have the ability to experience enjoyment."
    return str((4 if STORIES[0]["story"] in prompt or STORIES[1]["story"] in prompt else 1) + seed % 2)


def test_the_folder_holds_answers_ratings_and_tables(command: Command, server: ServerImitation) -> None:
    server.answer = by_story
    people = [
        {"story_id": s["story_id"], "rater": r, "relevance": v + (r == "b"), "note": 1}
        for r in "ab"
        for s, v in zip(STORIES, (5, 4, 2, 1), strict=True)
    ]
    write_csv(Path("people.csv"), people)
    prices = ["--price-prompt", "2", "--price-answer", "10"]
    code, printed = command(*at(server, "out", "--people", "people.csv", *prices))
    assert (code, printed) == (0, "report: out/README.md\n")
    answers = [json.loads(line) for line in Path("out/answers.jsonl").read_text().splitlines()]
    assert len(answers) == 4 * 4 * 3 == len(server.requests)
    assert {a["unparsed"] for a in answers if a["scale"] == "likability"} == {"refusal"}
    assert {a["rating"] for a in answers if a["scale"] == "relevance" and a["group"] == "human"} <= {4, 5}
    with Path("out/ratings.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["story_id"] for row in rows] == [s["story_id"] for s in STORIES for _ in range(3)]
    assert {row["rater"] for row in rows} == {"answer-1", "answer-2", "answer-3"}
    assert {row["likability"] for row in rows} == {""}
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["answers"]["likability"] == {"answers": 12, "rated": 0, "unparsed": {"refusal": 12}, "cut": 0}
    assert summary["usage"]["total"] == {
        "questions": 48,
        "prompt_tokens": 4800,
        "answer_tokens": 480,
        "uncounted": 0,
        "cost": pytest.approx(4800 * 2e-6 + 480 * 10e-6),
    }
    tau = next(t for t in summary["kendall with people"] if t["group"] == "all stories" and t["scale"] == "relevance")
    assert tau["tau"]["value"] > 0
    assert tau["tau"]["n"] == 4
    assert summary["tests"]["ratings"][0]["system"] == "model"
    page = Path("out/README.md").read_text()
    assert "refusal: 12" in page
    assert MODEL in page
    assert "judge, human, likability: no story has two ratings" in page


def test_ratings_are_what_carp_agree_reads(command: Command, server: ServerImitation) -> None:
    assert command(*at(server, "out", "--attributes", "relevance,grammaticality"))[0] == 0
    ratings = read_ratings("out/ratings.csv")
    assert ratings.columns.scales == ("relevance", "grammaticality")
    assert (len(ratings.stories), len(ratings.raters), ratings.groups) == (4, 3, ["human", "model"])


def test_a_second_run_asks_only_what_is_new(command: Command, server: ServerImitation) -> None:
    command(*at(server, "first", "--attributes", "grammaticality"))
    assert len(server.requests) == 12
    command(*at(server, "second", "--attributes", "grammaticality"))
    assert len(server.requests) == 12
    assert Path("first/answers.jsonl").read_bytes() == Path("second/answers.jsonl").read_bytes()
    command(*at(server, "third", "--attributes", "grammaticality,likability", "--answers", "4"))
    assert len(server.requests) == 12 + 4 + 16
    usage = json.loads(Path("third/summary.json").read_text())["usage"]
    assert (usage["total"]["questions"], usage["this run"]["questions"]) == (32, 20)
    assert set(server.answered().values()) == {1}


def test_what_fails_is_asked_by_the_same_command(command: Command, server: ServerImitation) -> None:
    server.failures = [None, None, error(400, message="context length")]
    words_ = at(server, "out", "--attributes", "grammaticality", "--concurrency", "1")
    code, printed = command(*words_)
    assert code == 1
    assert "1 of 12 questions got no answer, the first one about story 'h1' on grammaticality: 400" in printed
    assert not Path("out").exists()
    assert command(*words_)[0] == 0
    assert len(server.requests) == 12 + 1
    assert set(server.answered().values()) == {1}


def test_a_killed_run_continues_without_asking_twice(command: Command, server: ServerImitation) -> None:
    script = "import typer; from carp.cli.judge import judge_command; typer.run(judge_command)"
    line = at(server, "out", "--attributes", "grammaticality", "--concurrency", "1")
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "NO_PROXY": "127.0.0.1"}
    server.failures = [None] * 5 + [HANG]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *line, "--cache", "cache.sqlite"], env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while server.failures and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(server.requests) == 5
    assert not Path("out").exists()
    assert command(*line)[0] == 0
    assert set(server.answered().values()) == {1}
    assert len(server.answered()) == 12


def test_the_key_goes_to_the_server_and_nowhere_else(
    command: Command, server: ServerImitation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert command(*at(server, "out", "--attributes", "grammaticality"))[0] == 0
    assert {asked.authorization for asked in server.requests} == {"Bearer sk-very-secret"}
    server.failures = [error(401, message="Incorrect API key: sk-very-secret")]
    code, printed = command(*at(server, "other", "--attributes", "likability", "--concurrency", "1"))
    assert (code, "sk-very-secret" in printed, "***" in printed) == (2, False, True)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 4
    assert not [path for path in written if b"sk-very-secret" in path.read_bytes()]


def test_persona_explanation_and_half_points(command: Command, server: ServerImitation) -> None:
    server.answer = lambda prompt, seed: "4.5"
    options = ["--attributes", "grammaticality"]
    command(*at(server, "plain", *options))
    command(*at(server, "halves", "--halves", *options))
    assert len(server.requests) == 12
    found = [
        json.loads(Path(out, "summary.json").read_text())["answers"]["grammaticality"] for out in ("plain", "halves")
    ]
    assert [one["rated"] for one in found] == [0, 12]
    assert found[0]["unparsed"] == {"not a whole number": 12}
    command(*at(server, "both", "--persona", "--explain", *options))
    prompts = {asked.body["messages"][0]["content"] for asked in server.requests[12:]}
    assert all(p.startswith("(You are") and p.endswith("explain your decision.") for p in prompts)


def test_equal_stories_share_their_questions(command: Command, server: ServerImitation) -> None:
    write_stories([STORIES[0], STORIES[0] | {"story_id": "again"}])
    command(*at(server, "out", "--attributes", "grammaticality"))
    assert len(server.requests) == 3
    assert json.loads(Path("out/summary.json").read_text())["usage"]["total"]["questions"] == 3
    assert len(Path("out/answers.jsonl").read_text().splitlines()) == 6


def test_a_server_without_token_counts(command: Command, server: ServerImitation) -> None:
    server.usage = False
    command(*at(server, "out", "--attributes", "grammaticality"))
    assert "12 answers came without numbers of tokens" in Path("out/README.md").read_text()


def test_a_model_on_this_machine(command: Command, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", tokenizer, "gpt2")
    line = ["--model", model, "--stories", "stories.jsonl", "--attributes", "likability", "--max-tokens", "5"]
    assert command(*line, "--out", "first")[0] == 0
    assert command(*line, "--out", "second", "--cache", "other.sqlite", "--batch-size", "2")[0] == 0
    rows = [json.loads(text) for text in Path("first/answers.jsonl").read_text().splitlines()]
    again = [json.loads(text) for text in Path("second/answers.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == [row["text"] for row in again]
    assert len({row["text"] for row in rows}) > 6
    code, printed = command(*line, "--out", "third", "--max-tokens", "399")
    assert code == 2
    assert re.search(r"12 of 12 questions .* story 'h1' on likability: \d+ tokens, more than the 400 of", printed)


BAD = [
    ([], {"--attributes": "charm"}, "--attributes charm: the rubric stories has grammaticality, cohesiveness"),
    ([], {"--attributes": "relevance,relevance"}, "relevance is named twice"),
    ([], {"--rubric": "nothing"}, "--rubric nothing: no such file, and no bundled rubric"),
    (["--persona"], {"--rubric": "confederacy"}, "--persona: the rubric confederacy has none"),
    ([], {"--answers": "0"}, "--answers 0"),
    ([], {"--temperature": "-1"}, "--temperature -1"),
    ([], {"--temperature": "nan"}, "--temperature nan"),
    ([], {"--top-p": "0"}, "--top-p 0"),
    ([], {"--max-tokens": "0"}, "--max-tokens 0"),
    ([], {"--seed": "-1"}, "--seed -1"),
    ([], {"--concurrency": "0"}, "--concurrency 0"),
    ([], {"--timeout": "0"}, "--timeout 0"),
    ([], {"--price-prompt": "1"}, "give both or none"),
    ([], {"--price-prompt": "-1", "--price-answer": "1"}, "--price-prompt -1"),
    ([], {"--revision": "main"}, "--revision: of a model on this machine"),
    ([], {"--stories": "nowhere.jsonl"}, "nowhere.jsonl: no such file"),
    ([], {"--people": "nowhere.csv"}, "nowhere.csv: no such file"),
    ([], {"--out": "stories.jsonl"}, "--out stories.jsonl: exists already"),
]


@pytest.mark.parametrize(("flags", "options", "message"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_option_is_one_line(
    command: Command, server: ServerImitation, flags: list[str], options: Texts, message: str
) -> None:
    line = [*at(server), *flags, *(word for pair in options.items() for word in pair)]
    code, printed = command(*line)
    assert code == 2
    assert message in printed
    assert len(printed.splitlines()) == 1
    assert not server.requests
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("stories", "message"),
    [
        ([{"story": "Rain."}], "row 1: has no 'story_id'"),
        ([{"story_id": "a", "story": " "}], "row 1: has no text in 'story'"),
        (
            [{"story_id": "a", "story": "Rain."}],
            "no text in 'prompt'; write it there, or leave the scale relevance out",
        ),
        ([STORIES[0], STORIES[0]], "row 2: story_id 'h1' is taken by"),
        ([STORIES[0], {**STORIES[1], "group": None}], "row 2: some stories have a 'group' and some have none"),
        ([{**STORIES[0], "group": ["a"]}], "row 1: 'group' is"),
        ([], "the file is empty"),
    ],
)
def test_a_bad_story_is_one_line(
    command: Command, server: ServerImitation, stories: list[dict[str, Any]], message: str
) -> None:
    write_stories(stories)
    code, printed = command(*at(server))
    assert (code, len(printed.splitlines()), server.requests) == (2, 1, [])
    assert message in printed
    assert "stories.jsonl" in printed


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"story_id": "h1", "rater": "a", "charm": 1}], "no column of a scale"),
        ([{"story_id": "x", "rater": "a", "relevance": 1}], "rates none of the stories"),
        ([{"tale": "h1", "rater": "a", "relevance": 1}], "no column for the story"),
        ([{"story_id": "h1", "rater": "a", "relevance": "good"}], "row 1, column 'relevance': 'good' is not a number"),
    ],
)
def test_bad_ratings_of_people_are_one_line(
    command: Command, server: ServerImitation, rows: list[dict[str, Any]], message: str
) -> None:
    write_csv(Path("people.csv"), rows)
    code, printed = command(*at(server, "out", "--people", "people.csv"))
    assert (code, len(printed.splitlines()), server.requests) == (2, 1, [])
    assert message in printed
