"""Tokenised pairs: exact counts, a cache that notices changes, a clean split and reproducible batches."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import shared_data
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.data import tokenized
from carp.data.pairs import Pair, read_pairs
from carp.data.tokenized import BLOCK, BatchSampler, TokenizedPairs, split_rows, tokenize_pairs
from carp.errors import InputError

LIMIT = 12


def write_pairs(path: Path, pairs: list[Pair]) -> str:
    path.write_text("".join(json.dumps(pair._asdict()) + "\n" for pair in pairs))
    return str(path)


def tokens_of(tokenizer: PreTrainedTokenizerBase, text: str, limit: int) -> list[int]:
    ids: list[int] = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
    return ids


def opened(
    source: str, tokenizer: PreTrainedTokenizerBase, cache: Path, limits: tuple[int, int] = (LIMIT, LIMIT)
) -> TokenizedPairs:
    return tokenize_pairs(source, tokenizer, tokenizer, *limits, cache)


def text_of_length(tokenizer: PreTrainedTokenizerBase, tokens: int) -> str:
    """A text that the tokenizer turns into so many tokens, special ones included."""
    text = tokenizer.decode([tokenizer.convert_tokens_to_ids("Q")] * (tokens - 2))
    assert len(tokenizer(text)["input_ids"]) == tokens
    return text


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with what changes when it is written again."""
    found = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in found}


# -- tokenising --------------------------------------------------------------------------------------------


@pytest.fixture
def edge_pairs(tokenizer: PreTrainedTokenizerBase) -> list[Pair]:
    """Texts around both limits: 8 characters, and 12 tokens."""
    fits, just, over, far = (text_of_length(tokenizer, n) for n in (LIMIT - 1, LIMIT, LIMIT + 1, 5 * LIMIT))
    return [
        Pair(just, fits, "a"),
        Pair(over, just, "a"),
        Pair(over, over, None),
        Pair(far, "exactly8"[:8], "b"),
        Pair("seven c", fits, "b"),
        Pair(fits, "   7 char   ", None),
        Pair(fits, far, None),
    ]


def test_too_short_and_cut_texts_are_counted_exactly(
    edge_pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    pairs = opened(write_pairs(tmp_path / "p.jsonl", edge_pairs), tokenizer, tmp_path / "cache")
    assert pairs.info == {"pairs": 5, "too_short": 2, "passages_cut": 3, "critiques_cut": 2}
    assert len(pairs) == 5


def test_each_side_has_its_own_limit(
    edge_pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    source = write_pairs(tmp_path / "p.jsonl", edge_pairs)
    pairs = opened(source, tokenizer, tmp_path / "cache", (5 * LIMIT, LIMIT - 1))
    assert (pairs.info["passages_cut"], pairs.info["critiques_cut"]) == (0, 3)


@pytest.mark.parametrize("limit", [3, 16, 30, 48])
def test_tokens_are_those_of_the_tokenizers_own_truncation(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, limit: int
) -> None:
    sample = list(read_pairs("sample"))
    pairs = opened("sample", tokenizer, tmp_path, (limit, limit))
    batch = pairs.batch(np.arange(len(sample)))
    assert len(pairs) == len(sample)
    for texts, field in ((batch.passages, "passage"), (batch.critiques, "critique")):
        rows = [row.tolist() for row in texts.tokens.split(texts.lengths.tolist())]
        assert rows == [tokens_of(tokenizer, getattr(pair, field), limit) for pair in sample]


def test_cut_texts_keep_their_special_tokens(
    edge_pairs: list[Pair], tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    pairs = opened(write_pairs(tmp_path / "p.jsonl", edge_pairs), tokenizer, tmp_path / "cache")
    passages = pairs.batch(np.arange(len(pairs))).passages
    rows = passages.tokens.split(passages.lengths.tolist())
    assert passages.lengths.tolist() == [LIMIT, LIMIT, LIMIT, LIMIT, LIMIT - 1]
    assert {int(row[0]) for row in rows} == {tokenizer.bos_token_id}
    assert {int(row[-1]) for row in rows} == {tokenizer.eos_token_id}


def test_a_batch_has_the_rows_that_were_asked_for_in_their_order(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    written = [Pair(f"The passage {i}.", f"The critique {i}.", f"g{i // 2}") for i in range(6)]
    pairs = opened(write_pairs(tmp_path / "p.jsonl", written), tokenizer, tmp_path / "cache", (48, 48))
    batch = pairs.batch(np.array([4, 0, 5]))
    rows = batch.critiques.tokens.split(batch.critiques.lengths.tolist())
    assert [tokenizer.decode(row, skip_special_tokens=True) for row in rows] == [
        "The critique 4.",
        "The critique 0.",
        "The critique 5.",
    ]
    assert batch.groups[0] == batch.groups[2] != batch.groups[1]
    assert batch.groups.min() >= 0


def test_pairs_without_group_have_none_and_stay_together_by_passage(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    written = [
        Pair("The one passage.", "The first critique.", None),
        Pair("The one passage.", "Another critique.", None),
        Pair("The other passage.", "The first critique.", None),
        Pair("The one passage.", "One with a group.", "g"),
    ]
    pairs = opened(write_pairs(tmp_path / "p.jsonl", written), tokenizer, tmp_path / "cache")
    assert pairs.batch(np.arange(3)).groups.tolist() == [-1, -1, -1]
    assert pairs.units[0] == pairs.units[1]
    assert len(set(pairs.units.tolist())) == 3
    assert pairs.units.min() >= 0


def test_more_pairs_than_one_block_are_all_kept_in_order(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenized, "PAIRS_PER_BLOCK", 7)
    pairs = opened("sample", tokenizer, tmp_path / "small")
    monkeypatch.undo()
    whole = opened("sample", tokenizer, tmp_path / "whole")
    assert pairs.info == whole.info
    rows = np.arange(len(whole))
    for small, large in zip(pairs.batch(rows)[:2], whole.batch(rows)[:2], strict=True):
        assert torch.equal(small.tokens, large.tokens)
        assert torch.equal(small.lengths, large.lengths)
    assert np.array_equal(pairs.units, whole.units)


# -- the cache ---------------------------------------------------------------------------------------------


def test_the_second_call_reads_the_cache(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened("sample", tokenizer, tmp_path)
    before = files_below(tmp_path)
    assert sorted(Path(name).name for name in before) == ["info.json", "pairs.arrow"]
    monkeypatch.setattr(tokenized, "read_pairs", lambda source: pytest.fail("the source was read again"))
    second = opened("sample", tokenizer, tmp_path)
    assert files_below(tmp_path) == before
    assert second.info == first.info
    assert np.array_equal(second.units, first.units)


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_source_is_tokenised_again(tokenizer: PreTrainedTokenizerBase, tmp_path: Path, change: str) -> None:
    path, pair = tmp_path / "p.jsonl", Pair("A passage of text.", "A critique.", None)
    source = write_pairs(path, [pair])
    assert len(opened(source, tokenizer, tmp_path / "cache")) == 1
    if change == "size":
        write_pairs(path, [pair] * 3)
        assert len(opened(source, tokenizer, tmp_path / "cache")) == 3
    else:
        old = path.stat()
        write_pairs(path, [Pair("B passage of text.", "A critique.", None)])
        assert path.stat().st_size == old.st_size

        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns + 1_000_000))
        tokens = opened(source, tokenizer, tmp_path / "cache").batch(np.array([0])).passages.tokens
        assert tokenizer.decode(tokens, skip_special_tokens=True).startswith("B passage")


def test_other_limits_do_not_share_a_cache_entry(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    assert opened("sample", tokenizer, tmp_path, (10, 10)).batch(np.array([0])).passages.lengths.max() == 10
    assert opened("sample", tokenizer, tmp_path, (11, 10)).batch(np.array([0])).passages.lengths.max() == 11


def test_another_tokenizer_does_not_share_a_cache_entry(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    from carp.model.encoders import train_tokenizer

    other = train_tokenizer(["something else entirely"], 300, 48)
    source = write_pairs(tmp_path / "p.jsonl", [Pair("It was a rainy morning.", "A critique.", None)])
    for used in (tokenizer, other):
        tokens = opened(source, used, tmp_path / "cache", (48, 48)).batch(np.array([0])).passages.tokens
        assert tokens.tolist() == used("It was a rainy morning.")["input_ids"]


@pytest.mark.parametrize("good_rows", [0, 1, 2500])
def test_a_failing_source_leaves_nothing_in_the_cache(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, good_rows: int
) -> None:
    source = write_pairs(tmp_path / "p.jsonl", [Pair("A passage of text.", "A critique.", None)] * good_rows)
    with open(source, "a") as file:
        file.write('{"passage": null, "critique": "c"}\n')
    with pytest.raises(InputError, match=f"row {good_rows + 1}: 'passage' is null"):
        opened(source, tokenizer, tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*")) in ([], [tmp_path / "cache" / "tokenized"])


def test_a_mended_source_is_read_after_a_failure(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("{broken\n")
    with pytest.raises(InputError):
        opened(str(tmp_path / "p.jsonl"), tokenizer, tmp_path / "cache")
    source = write_pairs(tmp_path / "p.jsonl", [Pair("A passage of text.", "A critique.", None)])
    assert len(opened(source, tokenizer, tmp_path / "cache")) == 1


def test_a_source_of_short_texts_only_is_refused(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    source = write_pairs(tmp_path / "p.jsonl", [Pair("Short.", "A long enough critique.", None)])
    with pytest.raises(InputError, match="no pair with at least 8 characters on both sides"):
        opened(source, tokenizer, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.json"))


# -- splitting ---------------------------------------------------------------------------------------------

UNITS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 12), min_size=3, max_size=80)


def as_array(units: list[int]) -> NDArray[np.int64]:
    return np.array(units, dtype=np.int64)


def split_possible(units: NDArray[np.int64], wanted: int) -> bool:
    """Whether a unit remains for training, by counting pairs of the lowest hashes until there are enough."""
    values, counts = np.unique(units, return_counts=True)
    return int((counts.cumsum() < wanted).sum()) + 1 < len(values)


@given(UNITS, st.integers(1, 40))
def test_no_unit_is_on_both_sides_and_the_number_is_exact(values: list[int], wanted: int) -> None:
    units = as_array(values)
    if wanted >= len(units) or not split_possible(units, wanted):
        with pytest.raises(InputError):
            split_rows(units, wanted)
        return
    training, validation = split_rows(units, wanted)
    assert len(validation) == len(set(validation.tolist())) == wanted
    assert len(training) == len(set(training.tolist())) > 0
    assert not set(units[training].tolist()) & set(units[validation].tolist())
    # Nothing is lost but the surplus of the last unit.
    left_out = set(range(len(units))) - set(training.tolist()) - set(validation.tolist())
    assert {int(units[row]) for row in left_out} <= {int(units[validation].max())}


@given(UNITS, st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_split_does_not_depend_on_the_order_of_the_rows(values: list[int], wanted: int, random: object) -> None:
    units = as_array(values)
    if wanted >= len(units) or not split_possible(units, wanted):
        return
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    expected = [np.sort(units[rows]).tolist() for rows in split_rows(units, wanted)]
    found = [np.sort(as_array(shuffled)[rows]).tolist() for rows in split_rows(as_array(shuffled), wanted)]
    assert found == expected


def test_the_last_units_surplus_is_on_neither_side() -> None:
    training, validation = split_rows(as_array([5, 9, 5, 1, 5, 9]), 2)
    assert training.tolist() == [1, 5]
    assert validation.tolist() == [0, 3]


@pytest.mark.parametrize("wanted", [4, 5, 1000])
def test_too_few_pairs_are_refused(wanted: int) -> None:
    with pytest.raises(InputError, match=rf"4 pairs are too few for data\.validation_pairs={wanted}"):
        split_rows(as_array([1, 2, 3, 4]), wanted)


@pytest.mark.parametrize(("units", "wanted"), [([7, 7, 7, 7], 1), ([1, 2, 2, 2], 2)])
def test_a_split_that_leaves_nothing_for_training_is_refused(units: list[int], wanted: int) -> None:
    with pytest.raises(InputError, match=r"leave no group for training: set data\.validation_pairs lower"):
        split_rows(as_array(units), wanted)


# -- batches -----------------------------------------------------------------------------------------------


def epoch_of(rows: NDArray[np.int64], size: int, seed: int, epoch: int) -> list[int]:
    steps = len(rows) // size
    sampler = BatchSampler(rows, size, seed)
    batches = [sampler.batch(epoch * steps + i) for i in range(steps)]
    assert [len(batch) for batch in batches] == [size] * steps
    return [int(row) for batch in batches for row in batch]


@given(st.integers(2, 60), st.integers(2, 60), st.integers(0, 2**32), st.integers(0, 3))
def test_an_epoch_serves_no_row_twice(n: int, size: int, seed: int, epoch: int) -> None:
    size = min(n, size)
    rows = np.arange(100, 100 + n)
    served = epoch_of(rows, size, seed, epoch)
    assert len(served) == n - n % size
    assert len(set(served)) == len(served)
    assert set(served) <= set(rows.tolist())


def test_an_epoch_without_rest_is_a_permutation_of_the_given_rows() -> None:
    rows = np.arange(0, 120, 2)
    served = epoch_of(rows, 12, seed=3, epoch=0)
    assert sorted(served) == rows.tolist()
    assert served != rows.tolist()


def test_epochs_differ_from_each_other_and_seeds_too() -> None:
    rows = np.arange(60)
    orders = [tuple(epoch_of(rows, 12, seed, epoch)) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len(set(orders)) == 6


def test_over_the_epochs_a_row_that_was_left_out_comes_too() -> None:
    served = {row for epoch in range(10) for row in epoch_of(np.arange(11), 10, seed=0, epoch=epoch)}
    assert served == set(range(11))


def test_a_batch_is_a_function_of_seed_and_step_alone() -> None:
    rows = np.arange(50)
    topics = rows // 7
    sampler = BatchSampler(rows, 8, 5, topics)
    forward = [sampler.batch(step).tolist() for step in range(20)]
    backward = [sampler.batch(step).tolist() for step in reversed(range(20))]
    np.random.seed(1)
    torch.manual_seed(1)
    assert backward[::-1] == forward
    assert BatchSampler(rows, 8, 5, topics).batch(13).tolist() == forward[13]


def test_pairs_of_a_topic_stand_in_blocks_that_are_spread() -> None:
    topics = np.repeat([3, 5, -1], [100, 30, 70])
    served = np.random.default_rng(0).permutation(200)  # the topics of the rows are not in order either
    sampler = BatchSampler(np.arange(200), 200, 0, topics[served])
    order = sampler.batch(0)
    assert sorted(order) == list(range(200))
    runs = [(topic, len(list(run))) for topic, run in itertools.groupby(topics[served][order].tolist())]
    assert sum(length for topic, length in runs if topic == 5) == 30
    assert max(length for topic, length in runs if topic == 5) == 30, "one block"
    assert sum(length >= BLOCK for topic, length in runs if topic == 3) >= 2, "100 are cut into 32, 32, 32 and 4"
    assert sum(topic == -1 for topic, _ in runs) > 3, "what has no topic is spread alone"


@given(st.lists(st.integers(-1, 3), min_size=2, max_size=300), st.integers(0, 5))
def test_topics_lose_and_repeat_no_row(topics: list[int], seed: int) -> None:
    sampler = BatchSampler(np.arange(len(topics)), len(topics), seed, as_array(topics))
    assert sorted(sampler.batch(0)) == list(range(len(topics)))
    assert sorted(sampler.batch(1)) == list(range(len(topics)))


def test_topics_are_read_from_pairs_and_from_stories(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    rows = [
        {"passage": "A passage of words.", "critique": "Too short for me.", "topic": "one"},
        {"passage": "Another passage.", "critique": "Fine as it is.", "topic": ""},
        {"story": "A whole story.", "comments": [{"text": "I liked this."}], "topic": "one"},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    topics = tokenize_pairs(str(tmp_path / "pairs.jsonl"), tokenizer, tokenizer, 64, 32, tmp_path).topics
    assert topics[0] == topics[2] >= 0
    assert topics[1] == -1


def test_the_real_critiques_are_read_whole(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    source = shared_data("critiques.jsonl.gz")
    pairs = tokenize_pairs(str(source), tokenizer, tokenizer, 64, 32, tmp_path)
    assert len(pairs) + pairs.info["too_short"] == 20_943
    training, validation = split_rows(pairs.units, 1000)
    assert not set(pairs.units[training]) & set(pairs.units[validation])
    assert len(set(pairs.units)) == 2708  # stories
