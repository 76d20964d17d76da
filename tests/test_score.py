"""Scores: shapes, the plain cosine, windows, paraphrases, and texts of every kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from conftest import tiny_config
from transformers import AutoTokenizer, PegasusConfig, PegasusForConditionalGeneration
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

import carp
from carp.data.pairs import read_pairs
from carp.errors import InputError
from carp.model import bundled
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts
from carp.reviews import REVIEWS, bundled_paraphrases
from carp.scoring import encoding, loading
from carp.scoring import score as score_module
from carp.scoring.paraphrase import PegasusParaphraser, expand_reviews

TOLERANCE = 1e-5
STORY = "It was raining. John took an umbrella."


@pytest.fixture(scope="module")
def long_story() -> str:
    """About a thousand tokens, so dozens of windows."""
    return "\n\n".join(dict.fromkeys(pair.passage for pair in read_pairs("sample")))[:3000]


def windows_by_hand(tokenizer: PreTrainedTokenizerBase, text: str, size: int, overlap: int) -> list[list[int]]:
    """Windows of ``size`` tokens cut out of the tokens of the whole text, special tokens added to each."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    content = size - 2
    starts = range(0, max(1, len(ids) - overlap), content - overlap)
    return [[tokenizer.bos_token_id, *ids[i : i + content], tokenizer.eos_token_id] for i in starts]


def mean_of_windows(model: CarpModel, windows: list[list[int]], reviews: Sequence[str]) -> np.ndarray:
    """The mean over windows of their cosines."""
    embeds = model.embed_tokenized("passage", TokenizedTexts.from_lists(windows))
    return (embeds @ model.encode_critiques(reviews).T).mean(dim=0).numpy()


def assert_close(found: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(found, np.asarray(expected), rtol=0, atol=TOLERANCE)


# -- shapes and values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "reviews", "shape"),
    [
        (STORY, None, (9,)),
        (STORY, "This is boring.", (1,)),
        (STORY, ["This is boring.", "Nice!"], (2,)),
        ([STORY], None, (1, 9)),
        ([STORY, "Another."], "This is boring.", (2, 1)),
        ((STORY, "Another.", "Third."), ("a", "b"), (3, 2)),
    ],
)
def test_shape_type_and_range(model: CarpModel, story: Any, reviews: Any, shape: tuple[int, ...]) -> None:
    found = carp.score(story, reviews, model=model)
    assert found.shape == shape
    assert found.dtype == np.float32
    assert np.abs(found).max() <= 1


def test_a_short_story_scores_the_plain_cosine(model: CarpModel) -> None:
    passage, critiques = model.encode_passages(STORY), model.encode_critiques(REVIEWS)
    assert_close(carp.score(STORY, model=model), (passage @ critiques.T)[0])
    assert_close(carp.score(STORY, model=model), torch.nn.functional.cosine_similarity(passage, critiques).numpy())


def test_scores_differ_between_stories_and_reviews(model: CarpModel) -> None:
    found = carp.score([STORY, "She laughed and laughed and laughed."], model=model)
    assert len(np.unique(found.round(4))) == 18


def test_equal_reviews_score_equally(model: CarpModel) -> None:
    found = carp.score(STORY, ["This is boring.", "Nice!", "This is boring."], model=model)
    assert found[0] == found[2] != found[1]


def test_scores_do_not_depend_on_the_batch(model: CarpModel, long_story: str) -> None:
    stories = [long_story[i * 31 : i * 31 + 5 + 13 * i] for i in range(40)]
    together = carp.score(stories, model=model)
    assert_close(together, [carp.score(story, model=model) for story in stories])
    assert_close(together[:, 4:5], [carp.score(story, REVIEWS[4], model=model) for story in stories])
    assert_close(together[::-1], carp.score(stories[::-1], model=model))


def test_blocks_of_stories_are_joined_in_order(model: CarpModel, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [f"Story number {i} was {'very ' * i}short." for i in range(11)]
    whole = carp.score(stories, model=model)
    monkeypatch.setattr(encoding, "STORIES_PER_BLOCK", 3)
    assert_close(carp.score(stories, model=model), whole)


def test_ten_thousand_reviews(model: CarpModel) -> None:
    reviews = [f"Review {i}" for i in range(10_000)]
    found = carp.score(STORY, reviews, model=model, progress=False)
    assert found.shape == (10_000,)
    some = [0, 1, 4_999, 8_191, 8_192, 9_999]
    assert_close(found[some], [carp.score(STORY, reviews[i], model=model)[0] for i in some])


# -- the model ---------------------------------------------------------------------------------------------


def test_a_model_in_training_mode_scores_without_dropout_and_stays_in_training_mode(model: CarpModel) -> None:
    assert model.config.passage_config.hidden_dropout_prob == 0.1
    expected = carp.score(STORY, model=model)
    model.train()
    assert_close(carp.score(STORY, model=model), expected)
    assert all(module.training for module in model.modules())


def test_a_model_in_evaluation_mode_stays_there(model: CarpModel) -> None:
    carp.score(STORY, model=model)
    assert not any(module.training for module in model.modules())


def test_a_model_is_found_by_its_folder(model: CarpModel, model_folder: Path) -> None:
    assert_close(carp.score(STORY, model=str(model_folder)), carp.score(STORY, model=model))


def test_the_environment_names_the_model_anew_each_time(
    model: CarpModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CarpModel(tiny_config(len(model.tokenizer("passage")))).eval()
    other.passage_tokenizer = other.critique_tokenizer = model.passage_tokenizer
    for name, saved in (("one", model), ("two", other)):
        saved.save_pretrained(tmp_path / name)
        monkeypatch.setenv("CARP_MODEL", str(tmp_path / name))
        assert_close(carp.score(STORY), carp.score(STORY, model=saved))


def test_the_bundled_model_is_the_default(model: CarpModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "__file__", str(tmp_path / "carp" / "model" / "bundled.py"))
    monkeypatch.setattr(loading, "_load_once", loading._load_once.__wrapped__)  # other tests mean the real one
    with pytest.raises(InputError, match=r"no model is named: give a folder or Hub id .*CARP_MODEL"):
        carp.score(STORY)
    model.save_pretrained(tmp_path / "checkpoints" / "carp-mini")
    assert_close(carp.score(STORY), carp.score(STORY, model=model))
    assert_close(carp.score(STORY, model="carp-mini"), carp.score(STORY, model=model))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-model", "no-such-model: no such folder"),
        ("nobody/nothing", "nobody/nothing: no such folder, not in the cache"),
    ],
)
def test_a_missing_model_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        carp.score(STORY, model=name)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\x00" * 100),
        ("model.safetensors", b""),
        ("config.json", b"{"),
        ("config.json", None),
    ],
)
def test_a_damaged_model_folder_is_named(model_folder: Path, file: str, content: bytes | None) -> None:
    if content is None:
        (model_folder / file).unlink()
    else:
        (model_folder / file).write_bytes(content)
    with pytest.raises(InputError, match="CARP model"):
        carp.load(model_folder)


def test_a_model_without_tokenizers_says_so(model: CarpModel) -> None:
    model.critique_tokenizer = None
    with pytest.raises(InputError, match=r"set model\.critique_tokenizer"):
        carp.score(STORY, model=model)


# -- windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "size", "overlap"), [("context", 48, 12), (16, 16, 4), (17, 17, 4), (48, 48, 12)])
def test_a_long_story_is_the_mean_over_its_windows(
    model: CarpModel,
    tokenizer: PreTrainedTokenizerBase,
    long_story: str,
    window: Any,
    size: int,
    overlap: int,
) -> None:
    windows = windows_by_hand(tokenizer, long_story, size, overlap)
    assert len(windows) > 15
    options = {"truncation": True, "max_length": size, "stride": overlap, "return_overflowing_tokens": True}
    assert tokenizer(long_story, **options)["input_ids"] == windows
    assert_close(carp.score(long_story, model=model, window=window), mean_of_windows(model, windows, REVIEWS))


def test_the_context_is_the_default_window(model: CarpModel, long_story: str) -> None:
    assert_close(carp.score(long_story, model=model), carp.score(long_story, model=model, window=48))


def test_stories_with_many_and_with_one_window_keep_apart(model: CarpModel, long_story: str) -> None:
    stories = [STORY, long_story, "Short.", long_story[:1000], long_story[500:]]
    together = carp.score(stories, model=model, window=16)
    assert_close(together, [carp.score(story, model=model, window=16) for story in stories])


def test_no_window_scores_the_cut_beginning(
    model: CarpModel, tokenizer: PreTrainedTokenizerBase, long_story: str
) -> None:
    first = tokenizer(long_story, truncation=True, max_length=48)["input_ids"]
    found = carp.score(long_story, model=model, window=None)
    assert_close(found, mean_of_windows(model, [first], REVIEWS))
    assert_close(found, (model.encode_passages(long_story) @ model.encode_critiques(REVIEWS).T)[0])
    assert np.abs(found - carp.score(long_story, model=model)).max() > 100 * TOLERANCE


@pytest.mark.parametrize("window", [48, 16, "context", None])
def test_a_story_that_fits_into_a_window_scores_the_same_with_all(model: CarpModel, window: Any) -> None:
    assert_close(carp.score("Short.", model=model, window=window), carp.score("Short.", model=model))


@pytest.mark.parametrize("window", [15, 3, 0, -1, 49, 512, 16.0, "16", "all", True])
def test_an_impossible_window_is_refused_with_what_is_possible(model: CarpModel, window: Any) -> None:
    with pytest.raises(InputError, match=r"choose 16 to 48 tokens") as caught:
        carp.score(STORY, model=model, window=window)
    assert str(caught.value).startswith(f"window={window!r}")


# -- paraphrases -------------------------------------------------------------------------------------------

PHRASES = {"Dull.": ["So boring.", "I fell asleep.", "Nothing happens!"], "Nice.": ["I love it."]}


def test_a_mapping_averages_the_scores_of_its_phrases(model: CarpModel) -> None:
    expected = [carp.score(STORY, phrases, model=model).mean() for phrases in PHRASES.values()]
    assert_close(carp.score(STORY, list(PHRASES), model=model, paraphrases=PHRASES), expected)


def test_the_review_itself_is_no_phrase_unless_it_is_given(model: CarpModel) -> None:
    alone, other = carp.score(STORY, ["Dull.", "So boring."], model=model)
    given = carp.score(STORY, "Dull.", model=model, paraphrases={"Dull.": ["So boring."]})
    both = carp.score(STORY, "Dull.", model=model, paraphrases={"Dull.": ["So boring.", "Dull."]})
    assert_close(given, [other])
    assert_close(both, [(alone + other) / 2])
    assert abs(alone - other) > 100 * TOLERANCE


def test_bundled_paraphrases_serve_the_nine_reviews(model: CarpModel) -> None:
    bundled = bundled_paraphrases()
    expected = [carp.score(STORY, bundled[review], model=model).mean() for review in REVIEWS]
    assert_close(carp.score(STORY, model=model, paraphrases="bundled"), expected)


def test_bundled_paraphrases_refuse_other_reviews(model: CarpModel) -> None:
    with pytest.raises(InputError, match=r"no paraphrases of .Show, don't tell!.: give some, or use pegasus"):
        carp.score(STORY, [REVIEWS[0], "Show, don't tell!"], model=model, paraphrases="bundled")


def test_a_function_may_paraphrase(model: CarpModel) -> None:
    asked = []

    def paraphrase(reviews: Sequence[str]) -> list[tuple[str, str]]:
        asked.append(list(reviews))
        return [(review, review.upper()) for review in reviews]

    found = carp.score(STORY, ["Dull.", "Nice."], model=model, paraphrases=paraphrase)
    assert asked == [["Dull.", "Nice."]]
    plain = carp.score(STORY, ["Dull.", "DULL.", "Nice.", "NICE."], model=model)
    assert_close(found, plain.reshape(2, 2).mean(axis=1))


def test_windows_and_paraphrases_go_together(model: CarpModel, long_story: str) -> None:
    stories = [long_story, STORY]
    expected = [carp.score(stories, PHRASES[review], model=model, window=16).mean(axis=1) for review in PHRASES]
    found = carp.score(stories, list(PHRASES), model=model, window=16, paraphrases=PHRASES)
    assert_close(found, np.array(expected).T)


@pytest.mark.parametrize(
    ("paraphrases", "message"),
    [
        ({}, "no paraphrases of 'Dull.'"),
        ({"Dull.": []}, "no paraphrases of 'Dull.'"),
        ("paper", "paraphrases='paper': choose bundled, pegasus, or give your own"),
        (lambda reviews: [[] for _ in reviews], "no paraphrases of 'Dull.'"),
        (lambda reviews: [["a"], ["b"]], "2 .*1"),
        ({"Dull.": "one string, not a list"}, "'Dull.'.*list"),
        ({"Dull.": ["  "]}, "is empty"),
        ({"Dull.": [3]}, "of type int"),
    ],
)
def test_paraphrases_that_cannot_be_used_are_refused(model: CarpModel, paraphrases: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        carp.score(STORY, "Dull.", model=model, paraphrases=paraphrases)


def test_without_paraphrases_each_review_stands_alone() -> None:
    assert expand_reviews(["a", "b"], None) == [["a"], ["b"]]


# -- Pegasus -----------------------------------------------------------------------------------------------


def save_pegasus(folder: Path) -> str:
    """A tiny Pegasus with random weights, in the form that the Hub's have."""
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*REVIEWS, *(p for phrases in bundled_paraphrases().values() for p in phrases)]),
        model_prefix=str(folder / "spiece"),
        model_type="unigram",
        vocab_size=120,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    settings = {"tokenizer_class": "PegasusTokenizer", "model_max_length": 60}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(0)
    config = PegasusConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=1.0,
    )
    PegasusForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pegasus_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_pegasus(tmp_path_factory.mktemp("pegasus") / "tiny")


@pytest.fixture(scope="module")
def pegasus(pegasus_folder: str) -> PegasusParaphraser:
    return PegasusParaphraser(pegasus_folder)


def test_pegasus_reads_its_sentencepiece_model(pegasus_folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(pegasus_folder)
    ids = tokenizer("This is boring.")["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == "This is boring."


def test_pegasus_gives_up_to_four_distinct_phrases_per_review(pegasus: PegasusParaphraser) -> None:
    found = pegasus(REVIEWS)
    assert len(found) == 9
    assert all(1 <= len(phrases) <= 4 for phrases in found)
    assert all(phrase == phrase.strip() != "" for phrases in found for phrase in phrases)
    assert all(len(set(phrases)) == len(phrases) for phrases in found)
    assert len({tuple(phrases) for phrases in found}) > 1
    assert not any("<pad>" in phrase or "</s>" in phrase for phrases in found for phrase in phrases)


def test_pegasus_is_deterministic_and_its_batches_are_joined_in_order(pegasus_folder: str) -> None:
    first = PegasusParaphraser(pegasus_folder, batch_size=1)(REVIEWS[:3])
    torch.manual_seed(123)
    assert PegasusParaphraser(pegasus_folder, batch_size=1)(REVIEWS[:3]) == first
    assert PegasusParaphraser(pegasus_folder, batch_size=1)(REVIEWS[2:3]) == first[2:]


def test_pegasus_scores_are_means_over_its_phrases(model: CarpModel, pegasus: PegasusParaphraser) -> None:
    reviews = REVIEWS[:2]
    expected = [carp.score(STORY, phrases, model=model).mean() for phrases in pegasus(reviews)]
    assert_close(carp.score(STORY, reviews, model=model, paraphrases=pegasus), expected)


def test_pegasus_that_writes_nothing_is_reported(pegasus: PegasusParaphraser, monkeypatch: pytest.MonkeyPatch) -> None:
    end = pegasus._tokenizer.eos_token_id
    monkeypatch.setattr(pegasus._model, "generate", lambda **options: torch.full((4, 2), end))
    assert pegasus(["This is boring."]) == [[]]
    with pytest.raises(InputError, match=r"no paraphrases of 'This is boring\.'"):
        expand_reviews(["This is boring."], pegasus)


def test_a_paraphraser_that_cannot_be_loaded_names_the_one_that_works_offline() -> None:
    with pytest.raises(InputError, match=r"cannot load the paraphraser 'nobody/nothing': .*'bundled' works offline"):
        PegasusParaphraser("nobody/nothing")


# -- texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("half an emoji \ud83d here", id="lone-surrogate"),
        pytest.param("\udc00\ud800", id="surrogates-only"),
        pytest.param("a\x00b\x00", id="nul"),
        pytest.param("\x00", id="nul-only"),
        pytest.param("👩‍👩‍👧‍👦🏳️‍🌈🇩🇪", id="emoji"),
        pytest.param("\u200b\ufeff\u202e", id="invisible"),
        pytest.param("物語は雨の夜に始まる。", id="japanese"),
        pytest.param("e\u0301" * 500, id="combining"),
        pytest.param("</s><s><pad><mask>", id="special-tokens"),
        pytest.param("[quote][quote]", id="quotes"),
        pytest.param("a" * 5000, id="one-long-word"),
        pytest.param("\r\n\t x", id="white-space-around"),
    ],
)
def test_any_text_has_finite_scores(model: CarpModel, text: str) -> None:
    found = carp.score([text, STORY], [text, "This is boring."], model=model)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 1
    assert_close(found[1:, 1], carp.score(STORY, "This is boring.", model=model))


@pytest.mark.parametrize(
    ("story", "reviews", "message"),
    [
        ("", None, "story 1 is empty"),
        (" \n\t\u3000", None, "story 1 is empty"),
        ([STORY, ""], None, "story 2 is empty"),
        ([], None, "there is no story"),
        ([STORY, 3], None, "story 2 is of type int"),
        ([None], None, "story 1 is of type NoneType"),
        (b"bytes", None, "story 1 is of type int"),
        (None, None, "story.*NoneType"),
        (3, None, "story.*int"),
        (STORY, "", "review 1 is empty"),
        (STORY, ["Nice.", " "], "review 2 is empty"),
        (STORY, [], "there is no review"),
        (STORY, (), "there is no review"),
        (STORY, [1.5], "review 1 is of type float"),
        (STORY, 1.5, "review.*float"),
    ],
)
def test_texts_that_are_none_are_refused(model: CarpModel, story: Any, reviews: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        carp.score(story, reviews, model=model)


def test_a_story_over_the_limit_is_refused(model: CarpModel) -> None:
    with pytest.raises(InputError, match=r"story 2 has 10,000,001 characters: divide it, 10,000,000 is the most"):
        carp.score([STORY, "x" * (score_module.MAX_CHARACTERS + 1)], model=model)


def test_a_story_of_exactly_the_limit_is_accepted(model: CarpModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "MAX_CHARACTERS", len(STORY))
    assert carp.score(STORY, model=model).shape == (9,)
    with pytest.raises(InputError, match="divide it"):
        carp.score(STORY + ".", model=model)
