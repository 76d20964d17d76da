"""The measures of carp-mini: models beside the untrained encoder, the number of words and chance.

    python scripts/mini/measure.py work ../shared/data --model carp-mini --out table --card README.md

Every figure is on stories that `raw.py` has kept aside (and on the human ratings, which nothing is trained on), with a
95 % bootstrap interval over stories or paragraphs. For retrieval names are replaced and quotes masked as in training.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor
from tqdm.auto import tqdm

from carp.constants import MINILM
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.raw import RawRecord
from carp.data.preparation.recognition import make_recognizer
from carp.data.preparation.steps import Preparer
from carp.data.preparation.token_ends import serialized_tokenizer, token_ends_of
from carp.data.records import read_records
from carp.evaluation.classifying.classifier import contrasts
from carp.evaluation.classifying.roc import areas
from carp.evaluation.resampling import Estimate, Resampling, estimate
from carp.files import written_file, written_folder
from carp.model.carp_model import CarpModel, Side
from carp.model.encoders import load_tokenizer
from carp.model.texts import TokenizedTexts
from carp.model.tower import TextTower
from carp.scoring.encoding import embed_reviews, embed_stories
from carp.scoring.loading import load
from carp.training.pooled import SHARD, PooledStates, pooled_key
from carp.versions import versions

Floats = NDArray[np.float64]
RETRIEVED = 400  # stories
BUDGET = 256  # tokens of a passage, as in training
SHAPE: dict[str, Any] = {"pooling": "mean", "max_passage_tokens": BUDGET, "max_critique_tokens": BUDGET}
SIDES: tuple[Side, ...] = ("passage", "critique")
TOKENS_PER_CHUNK = 2048
RESAMPLING = Resampling(1000)


class Scorer(Protocol):
    """What is measured."""

    def scores(self, texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        """[n, m]"""
        ...


class Model:
    """A CARP model. Models with the same encoders share what these make of a text, in files of a folder."""

    def __init__(self, model: CarpModel, folder: Path, bf16: bool) -> None:
        self._model, self._bf16 = model, bf16
        self._states = {side: PooledStates(folder / pooled_key(self._tower(side), bf16)) for side in SIDES}
        self._stories: dict[tuple[str, ...], Tensor] = {}

    def scores(self, texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        key = tuple(texts)
        if key not in self._stories:
            self._stories[key] = embed_stories(self._model, texts, progress=True, using=self)
        cosines = self._stories[key] @ embed_reviews(self._model, reviews, using=self).T
        return cosines.numpy().astype(np.float64)

    @torch.inference_mode()
    def embed_tokenized(self, side: Side, texts: TokenizedTexts, bar: Any = None) -> Tensor:
        """What scoring asks a model for."""
        tower, states = self._tower(side), self._states[side]
        states.read()  # another model may have added to it
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            for rows in states.lacks(texts.fingerprints()).nonzero().flatten().split(SHARD):
                if len(rows):
                    states.add(tower, texts.take(rows), TOKENS_PER_CHUNK)
        states.read()
        return tower.embed(texts.with_pooled(states.of(texts)), torch.arange(len(texts)))

    def _tower(self, side: Side) -> TextTower:
        tower: TextTower = getattr(self._model, f"{side}_tower")
        return tower


class WordCount:
    """Longer texts fit praise better and blame worse; of critiques it knows nothing."""

    def scores(self, texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        words = np.array([len(text.split()) for text in texts], np.float64)
        return np.repeat(words[:, None], len(reviews), axis=1)


class Nothing:
    """Chance: everything fits everything alike."""

    def scores(self, texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        return np.zeros((len(texts), len(reviews)))


class Retrieved(NamedTuple):
    """A passage and a critique of each of ``n`` stories, and the prompt [n] that each was written to."""

    passages: list[str]
    critiques: list[str]
    prompts: NDArray[np.int64]


def retrieval_set(records: Sequence[dict[str, Any]], kept: Path) -> Retrieved:
    """Names are replaced once, which takes minutes: ``kept`` is a JSON file that holds the result for later calls."""
    if not kept.exists():
        with written_file(kept) as draft:
            draft.write_text(json.dumps(_prepared(records)), encoding="utf-8")
    passages, critiques, prompts = json.loads(kept.read_text(encoding="utf-8"))
    return Retrieved(passages, critiques, np.array(prompts))


def _prepared(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[str], list[int]]:
    options = PreparationOptions(budget=BUDGET)
    ends = token_ends_of(serialized_tokenizer(load_tokenizer(options.tokenizer)))
    preparer = Preparer(options, ends, make_recognizer(options.recognizer))
    passages, critiques, prompts = [], [], []
    stories = [record for record in records if record["source"] == "eqbench_creative_writing_v3"]
    chosen = sorted(stories, key=lambda record: record["story_id"])[:RETRIEVED]
    for record in tqdm(chosen, desc="replacing names", unit="story"):
        made = preparer.run([RawRecord("heldout", 0, {key: record[key] for key in ("story", "comments")})]).pairs
        if made:
            pair = min(made, key=lambda pair: pair.order)  # by its hash: any one
            passages.append(pair.passage)
            critiques.append(pair.critique)
            prompts.append(int(record["meta"]["prompt_id"]))
    return passages, critiques, prompts


def retrieval(scorer: Scorer, chosen: Retrieved) -> Iterator[tuple[str, Estimate]]:
    scores = scorer.scores(chosen.passages, chosen.critiques)
    same_prompt = chosen.prompts[:, None] == chosen.prompts[None]
    for name, rivals in (("all", np.ones_like(same_prompt)), ("prompt", same_prompt)):
        for direction, matrix in (("critique of a passage", scores), ("passage of a critique", scores.T)):
            yield f"retrieval among {name}: {direction}", _mean(_top1(matrix, rivals))


def _top1(scores: Floats, rivals: NDArray[np.bool_]) -> Floats:
    """[n] whether the right one is first; of ties each counts its share."""
    own = scores.diagonal()[:, None]
    ahead = ((scores > own) & rivals).sum(1)
    tied = ((scores == own) & rivals).sum(1)
    return np.where(ahead > 0, 0.0, 1 / tied)


def _mean(values: Floats) -> Estimate:
    weights = RESAMPLING.weights(len(values))
    return estimate(weights @ values / weights.sum(1), "")


def span_categories(scorer: Scorer, records: Sequence[dict[str, Any]], reviews: dict[str, list[str]]) -> Estimate:
    """Mean over categories of the AUC of telling its spans from others."""
    spans = [
        (record["text"][span["start"] : span["end"]], span["category"], record["meta"]["paragraph_key"])
        for record in records
        for span in record["annotations"]
        if span["category"] in reviews
    ]
    texts, categories, paragraphs = zip(*spans, strict=True)
    group = np.unique(paragraphs, return_inverse=True)[1]
    scores = np.stack([scorer.scores(texts, phrases).mean(1) for phrases in reviews.values()], 1)
    contrasted = contrasts(scores)
    weights = RESAMPLING.weights(int(group.max()) + 1)[:, group]
    strata = np.zeros(len(texts), np.int64)
    found = [
        areas(contrasted[:, column], np.array(categories) == category, strata, weights)
        for column, category in enumerate(reviews)
    ]
    return estimate(np.nanmean(found, axis=0), "no spans")


def verdicts(scorer: Scorer, records: Sequence[dict[str, Any]], tests: dict[str, Any]) -> Estimate:
    """Mean over the experts' tests of the AUC of praise minus blame."""
    stories = [record for record in records if record["source"] == "ttcw"]
    weights = RESAMPLING.weights(len(stories))
    found = []
    for test, sides in tests.items():
        quality = _quality(scorer, [record["story"] for record in stories], sides)
        cases = [
            (i, comment["rating"])
            for i, record in enumerate(stories)
            for comment in record["comments"]
            if comment["aspect"] == test
        ]
        of_story, passed = np.array([i for i, _ in cases]), np.array([rating == 1 for _, rating in cases])
        strata = np.zeros(len(cases), np.int64)
        found.append(areas(quality[of_story], passed, strata, weights[:, of_story]))
    return estimate(np.nanmean(found, axis=0), "no verdicts")


def _quality(scorer: Scorer, texts: Sequence[str], sides: dict[str, list[str]]) -> Floats:
    praise = scorer.scores(texts, sides["praise"]).mean(1)
    if isinstance(scorer, WordCount):
        return praise
    return praise - scorer.scores(texts, sides["blame"]).mean(1)


def human_ratings(
    scorer: Scorer, records: Sequence[dict[str, Any]], sides: dict[str, list[str]]
) -> Iterator[tuple[str, Estimate]]:
    """Spearman's rank correlation, mean over the two sets, and which of two stories people prefer."""
    sets = np.array([record["set"] for record in records])
    ratings = np.array([record["rating"] for record in records], np.float64)
    quality = _quality(scorer, [record["text"] for record in records], sides)
    drawn = np.random.default_rng(RESAMPLING.seed)
    rows = [np.arange(len(records))]
    rows += [drawn.integers(len(records), size=len(records)) for _ in range(RESAMPLING.resamples)]
    yield "human ratings: Spearman", estimate(np.array([_spearman(ratings[i], quality[i], sets[i]) for i in rows]), "")
    yield (
        "human ratings: preferences",
        estimate(np.array([_preferred(ratings[i], quality[i], sets[i]) for i in rows]), ""),
    )


def _spearman(ratings: Floats, quality: Floats, sets: NDArray[np.str_]) -> float:
    if not np.ptp(quality):
        return 0.0  # nothing is told apart
    return float(
        np.mean(
            [np.corrcoef(rankdata(ratings[sets == s]), rankdata(quality[sets == s]))[0, 1] for s in np.unique(sets)]
        )
    )


def _preferred(ratings: Floats, quality: Floats, sets: NDArray[np.str_]) -> float:
    """Of two stories of one set, how often the one with the higher rating has the higher quality."""
    better = (ratings[:, None] > ratings[None]) & (sets[:, None] == sets[None])
    wins = np.sign(quality[:, None] - quality[None])
    return float(((wins + 1) / 2)[better].mean())


def experts_scores(scorer: Scorer, records: Sequence[dict[str, Any]], sides: dict[str, list[str]]) -> Estimate:
    """Spearman's rank correlation with a judge's score of the story, mean over prompts."""
    stories = [record for record in records if "file_score_0_100" in record["meta"]]
    prompts = np.array([record["meta"]["prompt_id"] for record in stories])
    ratings = np.array([record["meta"]["file_score_0_100"] for record in stories], np.float64)
    quality = _quality(scorer, [record["story"] for record in stories], sides)
    found = np.array(
        [
            _spearman(ratings[prompts == p], quality[prompts == p], prompts[prompts == p])
            for p, count in zip(*np.unique(prompts, return_counts=True), strict=True)
            if count > 2  # two stories are always in order or in reverse
        ]
    )
    return _mean(found[~np.isnan(found)])


def measures(scorer: Scorer, data: dict[str, Any], reviews: dict[str, Any], chosen: Retrieved) -> dict[str, Estimate]:
    return {
        **dict(retrieval(scorer, chosen)),
        "span categories: AUC": span_categories(scorer, data["spans"], reviews["spans"]),
        "expert verdicts: AUC": verdicts(scorer, data["heldout"], reviews["ttcw"]),
        **dict(human_ratings(scorer, data["ratings"], reviews["quality"])),
        "a judge's scores: Spearman": experts_scores(scorer, data["heldout"], reviews["quality"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder that raw.py has written")
    parser.add_argument("data", type=Path, help="folder with storyer_ratings.jsonl.gz")
    parser.add_argument("--model", action="append", default=[], metavar="FOLDER", help="may be repeated")
    parser.add_argument("--bf16", action="store_true", help="encode in bfloat16: faster where a processor has AMX")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write; must be new")
    parser.add_argument("--card", type=Path, help="model card in which the table takes the old one's place")
    parser.add_argument("--section", default="measures", help="part of the card that the table goes to")
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"{options.out} exists; give a new folder")
    if options.card and not all(mark in options.card.read_text(encoding="utf-8") for mark in marks(options.section)):
        parser.error(
            f"{options.card} lacks the lines {' and '.join(marks(options.section))}, between which the table goes"
        )
    reviews = yaml.safe_load((Path(__file__).parent / "reviews.yaml").read_text(encoding="utf-8"))
    files = {
        "heldout": options.work / "heldout.jsonl",
        "spans": options.work / "heldout_spans.jsonl",
        "ratings": options.data / "storyer_ratings.jsonl.gz",
    }
    data = {name: [record for _, record in read_records(path)] for name, path in files.items()}
    chosen = retrieval_set(data["heldout"], options.work / "retrieval.json")
    models = {Path(name).name: load(name, device="cpu") for name in options.model}
    models["untrained"] = CarpModel.from_encoders(MINILM, projection_dim=None, **SHAPE).eval()
    scorers: dict[str, Scorer] = {
        name: Model(model, options.work / "pooled", options.bf16) for name, model in models.items()
    }
    scorers |= {"number of words": WordCount(), "chance": Nothing()}
    found = {name: measures(scorer, data, reviews, chosen) for name, scorer in scorers.items()}
    with written_folder(options.out) as draft:
        table = markdown(found)
        (draft / "README.md").write_text(table, encoding="utf-8")
        everything = {name: {key: asdict(value) for key, value in of.items()} for name, of in found.items()}
        about = {"models": options.model, "stories": len(chosen.passages), "versions": versions()}
        text = json.dumps({"made": about, "measures": everything}, indent=2)
        (draft / "measures.json").write_text(text + "\n", encoding="utf-8")
    if options.card:
        fill(options.card, options.section, table)
    print(table)


def marks(section: str) -> tuple[str, str]:
    """The lines of a card between which the table of a section stands."""
    return f"<!-- {section} -->", f"<!-- end of {section} -->"


def fill(card: Path, section: str, table: str) -> None:
    """Put the table between the two marks of a section of a card."""
    begin, end = marks(section)
    text = card.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    with written_file(card) as draft:
        draft.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")


def markdown(found: dict[str, dict[str, Estimate]]) -> str:
    rows = [f"| measure | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for key in next(iter(found.values())):
        rows.append(f"| {key} | {' | '.join(_shown(of[key]) for of in found.values())} |")
    return "\n".join(rows) + "\n"


def _shown(value: Estimate) -> str:
    if value.value is None:
        return value.undefined
    return f"{value.value:.3f}" + (f" [{value.interval[0]:.3f}, {value.interval[1]:.3f}]" if value.interval else "")


if __name__ == "__main__":
    main()
