"""The command line: what it prints, and one line with exit code 2 for everything that people can mend."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import PATIENCE

import carp
from carp.cli.main import main
from carp.config import DataSettings, ModelSettings, TrainSettings
from carp.model import bundled
from carp.model.carp_model import CarpModel
from carp.reviews import REVIEWS, bundled_paraphrases
from carp.scoring.stories import MAX_BYTES

STORY = "It was raining. John took an umbrella."
OTHER = "She laughed and laughed and laughed."
PNG = b"\x89PNG\r\n\x1a\n"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model_folder: Path, tmp_path: Path
) -> Command:
    """Runs ``carp WORDS...`` in a folder with ``story.txt`` and ``other.txt``; ``$CARP_MODEL`` is set."""
    monkeypatch.setenv("CARP_MODEL", str(model_folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    Path("story.txt").write_text(STORY, encoding="utf-8")
    Path("other.txt").write_text(OTHER, encoding="utf-8")

    def run(*words: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["carp", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return Outcome(caught.value.code if isinstance(caught.value.code, int) else 0, out, err)

    return run


def json_rows(outcome: Outcome) -> list[dict[str, object]]:
    assert (outcome.code, outcome.err) == (0, "")
    return [json.loads(line) for line in outcome.out.splitlines()]


def expected_row(name: str, story: str, model: CarpModel, reviews: tuple[str, ...] = REVIEWS) -> dict[str, object]:
    scores = carp.score(story, reviews, model=model)
    return {
        "story_id": name,
        "scores": pytest.approx(dict(zip(reviews, scores.tolist(), strict=True)), abs=1e-5),
    }


# -- help --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["score", "embed", "train", "prepare", "report", "info", "convert", "push"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_every_command_has_examples(command: Command, name: str, flag: str) -> None:
    outcome = command(name, flag)
    assert (outcome.code, outcome.err) == (0, "")
    assert "Examples:" in outcome.out
    assert f"carp {name} " in outcome.out.split("Examples:")[1]


def test_help_names_every_command(command: Command) -> None:
    outcome = command("--help")
    assert outcome.code == 0
    assert [
        name
        for name in ("score", "embed", "train", "prepare", "report", "info", "convert", "push")
        if f" {name} " not in outcome.out
    ] == []


def test_version(command: Command) -> None:
    assert command("--version") == Outcome(0, f"carp {carp.__version__}\n", "")


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    run = [sys.executable, "-c", code, *words]
    return subprocess.run(run, capture_output=True, text=True, env=environment, timeout=PATIENCE)


HEAVY = "sorted({'torch', 'transformers', 'numpy', 'datasets', 'matplotlib'} & set(sys.modules))"


def test_importing_carp_imports_no_heavy_library() -> None:
    assert python(f"import sys, carp; print({HEAVY})").stdout == "[]\n"


EXTRAS = ["sklearn", "scipy", "openai", "peft", "gguf", "spacy", "datasketch", "deepspeed", "wandb", "tensorboard"]


def test_scoring_needs_no_extra(model: CarpModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    # None in sys.modules: importing it fails, as where it is not installed.
    code = f"import sys; sys.modules |= dict.fromkeys({EXTRAS}); import carp; "
    code += "print(carp.score('It rained.', model=sys.argv[1]).shape)"
    scored = python(code, str(tmp_path))
    assert scored.stdout == "(9,)\n", scored.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("score", "--help"),
        ("embed", "--help"),
        ("report", "--help"),
        ("prepare", "--help"),
        ("train", "--help"),
        ("--version",),
    ],
)
def test_help_imports_no_heavy_library(words: tuple[str, ...]) -> None:
    code = f"import sys, atexit; atexit.register(lambda: print({HEAVY})); from carp.cli.main import main; main()"
    found = python(code, *words)
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1] == "[]"


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in carp.__all__ if getattr(carp, name, None) is None] == []
    assert set(carp.__all__) <= set(dir(carp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        carp.nothing  # noqa: B018


# -- score -------------------------------------------------------------------------------------------------


def test_a_table_lists_all_reviews_by_falling_score(command: Command, model: CarpModel) -> None:
    outcome = command("score", "story.txt")
    assert (outcome.code, outcome.err) == (0, "")
    scores = carp.score(STORY, model=model)
    rows = re.findall(r"([+-]\d\.\d{3}) .*?█+.*? ([A-Z].*?\.)", outcome.out)
    assert rows == [(f"{scores[i]:+.3f}", REVIEWS[i]) for i in scores.argsort()[::-1]]
    assert outcome.out.splitlines()[0].strip() == "story"


def test_the_longest_bar_belongs_to_the_best_review(command: Command) -> None:
    bars = [len(bar) for bar in re.findall("█+", command("score", "story.txt").out)]
    assert len(bars) == 9
    assert bars == sorted(bars, reverse=True)
    assert (bars[0], bars[-1]) == (24, 1)


def test_json_has_stable_keys_and_the_scores_of_the_library(command: Command, model: CarpModel) -> None:
    (row,) = json_rows(command("score", "story.txt", "--json"))
    assert list(row) == ["story_id", "scores"]
    assert list(row["scores"]) == list(REVIEWS)  # type: ignore[call-overload]
    assert row == expected_row("story", STORY, model)


def test_several_files_give_one_row_each_in_their_order(command: Command, model: CarpModel) -> None:
    rows = json_rows(command("score", "other.txt", "story.txt", "--json"))
    assert rows == [expected_row("other", OTHER, model), expected_row("story", STORY, model)]


def test_several_files_give_one_table_each(command: Command) -> None:
    outcome = command("score", "other.txt", "story.txt")
    assert [line.strip() for line in outcome.out.splitlines() if line.strip() in ("other", "story")] == [
        "other",
        "story",
    ]
    assert len(re.findall("█+", outcome.out)) == 18


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_a_story_from_standard_input(command: Command, model: CarpModel, prefix: bytes) -> None:
    assert json_rows(command("score", "-", "--json", stdin=prefix + STORY.encode())) == [
        expected_row("-", STORY, model)
    ]


@pytest.mark.parametrize("name", ["stories.jsonl", "stories.jsonl.gz"])
def test_stories_from_json_lines(command: Command, model: CarpModel, name: str) -> None:
    records = [{"story_id": "first", "story": STORY}, {"story": OTHER, "story_id": 7}, {"story": STORY}]
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert json_rows(command("score", name, "--json")) == [
        expected_row("first", STORY, model),
        expected_row("7", OTHER, model),
        expected_row("3", STORY, model),
    ]


def test_reviews_from_words_and_file_come_together(command: Command, model: CarpModel) -> None:
    Path("reviews.txt").write_text("From a file.\n\n  With spaces.  \n", encoding="utf-8")
    words = ("-r", "Show, don't tell!", "--reviews", "reviews.txt", "--review", "Grüße [red]x[/red]")
    reviews = ("Show, don't tell!", "Grüße [red]x[/red]", "From a file.", "With spaces.")
    outcome = command("score", "story.txt", "--json", *words)
    assert json_rows(outcome) == [expected_row("story", STORY, model, reviews)]
    assert "Grüße" in outcome.out
    assert "[red]x[/red]" in command("score", "story.txt", *words).out


def test_paraphrases_from_a_file(command: Command, model: CarpModel) -> None:
    phrases = {"Dull.": ["So boring.", "I fell asleep."], "Nice.": ["I love it."]}
    Path("phrases.json").write_text(json.dumps(phrases))
    words = ("score", "story.txt", "-r", "Dull.", "-r", "Nice.", "--json", "--paraphrases")
    (row,) = json_rows(command(*words, "phrases.json"))
    expected = {review: float(carp.score(STORY, p, model=model).mean()) for review, p in phrases.items()}
    assert row["scores"] == pytest.approx(expected, abs=1e-5)


def test_bundled_paraphrases(command: Command, model: CarpModel) -> None:
    (row,) = json_rows(command("score", "story.txt", "--json", "--paraphrases", "bundled"))
    phrases = bundled_paraphrases()
    expected = {review: float(carp.score(STORY, phrases[review], model=model).mean()) for review in REVIEWS}
    assert row["scores"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("word", "window"), [("none", None), ("16", 16), ("48", 48), ("context", "context")])
def test_windows_are_those_of_the_library(command: Command, model: CarpModel, word: str, window: object) -> None:
    long = " ".join([STORY, OTHER] * 20)
    Path("long.txt").write_text(long)
    (row,) = json_rows(command("score", "long.txt", "--json", "--window", word))
    scores = carp.score(long, model=model, window=window)  # type: ignore[arg-type]
    assert row["scores"] == pytest.approx(dict(zip(REVIEWS, scores.tolist(), strict=True)), abs=1e-5)


def test_the_model_may_be_named(command: Command, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json_rows(command("score", "story.txt", "--json"))
    monkeypatch.delenv("CARP_MODEL")
    assert json_rows(command("score", "story.txt", "--json", "--model", str(model_folder))) == expected
    assert json_rows(command("score", "story.txt", "--json", "-m", str(model_folder))) == expected


@pytest.mark.parametrize("stories", [1, 8])
def test_plot_writes_a_png_and_nothing_else(command: Command, stories: int) -> None:
    Path("plots").mkdir()
    outcome = command("score", *["story.txt"] * stories, "--json", "--plot", "plots/scores.png")
    assert (outcome.code, outcome.err) == (0, "plot: plots/scores.png\n")
    assert len(outcome.out.splitlines()) == stories
    assert [path.name for path in Path("plots").iterdir()] == ["scores.png"]
    assert Path("plots/scores.png").read_bytes()[:8] == PNG


def test_a_plot_replaces_an_older_one(command: Command) -> None:
    Path("scores.png").write_bytes(b"old")
    assert command("score", "story.txt", "--plot", "scores.png").code == 0
    assert Path("scores.png").read_bytes()[:8] == PNG


# -- embed -------------------------------------------------------------------------------------------------


def test_embedded_stories_score_like_the_stories(command: Command, model: CarpModel) -> None:
    outcome = command("embed", "story.txt", "other.txt", "--out", "new/stories.parquet", "--precision", "float32")
    assert outcome == Outcome(0, "2 embeddings of width 24: new/stories.parquet\n", "")
    rows = json_rows(command("score", "--embeddings", "new/stories.parquet", "--json"))
    assert rows == [expected_row("story", STORY, model), expected_row("other", OTHER, model)]


def test_critiques_are_embedded_by_line(command: Command, model: CarpModel) -> None:
    Path("reviews.txt").write_text("This is boring.\n\nHow exciting!\n", encoding="utf-8")
    assert command("embed", "reviews.txt", "--critiques", "--out", "reviews.parquet").code == 0
    found = carp.Embeddings.load("reviews.parquet")
    assert (found.ids, found.side) == (["This is boring.", "How exciting!"], "critique")
    np.testing.assert_allclose(found.vectors, model.encode_critiques(found.ids), atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score",), "give stories or --embeddings, one of the two"),
        (("score", "story.txt", "--embeddings", "x.parquet"), "give stories or --embeddings, one of the two"),
        (("score", "--embeddings", "none.parquet"), "none.parquet: no such file"),
        (("score", "story.txt", "--devices", "cuda:9"), "no device 'cuda:9' on this machine"),
        (("score", "story.txt", "--precision", "int4"), "choose float32, bfloat16, float16, int8"),
        (("embed", "story.txt", "--out", "."), "--out .: a folder; name a file"),
        (("embed", "none.txt", "--out", "x.parquet"), "none.txt: no such file"),
    ],
)
def test_a_mistake_in_embedding_is_one_line(command: Command, words: tuple[str, ...], message: str) -> None:
    outcome = command(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert not Path("x.parquet").exists()


# -- what goes wrong ---------------------------------------------------------------------------------------


def assert_one_line(outcome: Outcome, *words: str) -> None:
    """Exit code 2 and exactly one line on standard error, from carp, that holds ``words``."""
    assert outcome.code == 2
    assert outcome.err.startswith("carp: ")
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1
    assert [word for word in words if word not in outcome.err] == []


UNREADABLE_STORIES = [
    pytest.param("none.txt", None, "no such file", id="missing"),
    pytest.param("n" * 300, None, "no such file", id="a-story-instead-of-a-file"),
    pytest.param(".", None, "a folder; name its files", id="folder"),
    pytest.param("s.txt", PNG + b"\x00\x01\xff", "NUL bytes", id="binary"),
    pytest.param("s.txt", "Grüße".encode("latin-1"), "not UTF-8 at byte 2", id="not-utf-8"),
    pytest.param("s.txt", STORY.encode("utf-16"), "UTF-8", id="utf-16"),
    pytest.param("s.txt", b"", "empty", id="empty"),
    pytest.param("s.txt", b" \n\t \n", "empty", id="white-space"),
    pytest.param("s.txt", b"\xef\xbb\xbf", "empty", id="bom-only"),
    pytest.param("s.jsonl", b'{"story": "a"}\n{"text": "b"}\n', "row 2: has no text in 'story'", id="no-story"),
    pytest.param("s.jsonl", b'{"story": " "}\n', "row 1: has no text in 'story'", id="empty-story"),
    pytest.param("s.jsonl", b"{broken\n", "row 1: not valid JSON", id="broken-json"),
    pytest.param("s.jsonl", b"", "the file is empty", id="empty-json-lines"),
    pytest.param("s.jsonl", b"\n\n", "s.jsonl: holds no", id="no-rows"),
]


@pytest.mark.parametrize(("name", "content", "words"), UNREADABLE_STORIES)
def test_an_unreadable_story_is_one_line(command: Command, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    outcome = command("score", "story.txt", name)
    assert_one_line(outcome, words)
    assert outcome.out == ""


def test_a_file_of_41_megabytes_is_one_line(command: Command) -> None:
    with Path("large.txt").open("wb") as file:
        file.truncate(41_000_000)
    assert_one_line(command("score", "large.txt"), "large.txt: larger than 40 MB; divide it")


def test_41_megabytes_from_standard_input_are_one_line(command: Command) -> None:
    outcome = command("score", "-", stdin=b"x" * (MAX_BYTES + 1))
    assert_one_line(outcome, "standard input: larger than 40 MB")


@pytest.mark.parametrize("content", [b"", b"\xff", b"a\x00b"])
def test_bad_standard_input_is_one_line(command: Command, content: bytes) -> None:
    assert_one_line(command("score", "-", stdin=content), "standard input: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "no-such-model"), "no-such-model: no such folder"),
        (("--model", "nobody/nothing"), "nobody/nothing: no such folder, not in the cache"),
        (("--model", "."), ".: no CARP model (it has no config.json)"),
        (("--reviews", "none.txt"), "none.txt: no such file"),
        (("--reviews", "empty"), "empty: the file is empty"),
        (("--reviews", "blank"), "blank: the file is empty"),
        (("-r", ""), "review 1 is empty"),
        (("--window", "abc"), "--window abc: give a number of tokens, or none"),
        (("--window", "-5"), "--window -5: give a number of tokens, or none"),
        (("--window", "1.5"), "--window 1.5: give a number"),
        (("--window", "3"), "choose 16 to 48 tokens"),
        (("--window", "49"), "choose 16 to 48 tokens"),
        (("--window", "9" * 5000), "--window"),
        (("--paraphrases", "broken"), "broken: not valid JSON"),
        (("--paraphrases", "deep"), "deep: not valid JSON"),
        (("--paraphrases", "list"), "list: expected an object that maps each review to a list"),
        (("--paraphrases", "strings"), "strings: expected an object that maps each review to a list"),
        (("--paraphrases", "none.json"), "none.json: no such file"),
        (("--paraphrases", "other"), "no paraphrases of 'This kind of drags on.'"),
        (("--paraphrases", "bundled", "-r", "New."), "no paraphrases of 'New.'"),
        (("--paraphrases", "pegasus"), "cannot load the paraphraser 'tuner007/pegasus_paraphrase'"),
        (("--plot", "missing/scores.png"), "--plot missing/scores.png: there is no folder"),
        (("--plot", "story.txt/scores.png"), "--plot story.txt/scores.png: there is no folder"),
        (("--plot", "."), "--plot ."),
        (("--plot", "model"), "--plot model"),
    ],
    ids=lambda value: " ".join(word[:24] for word in value) if isinstance(value, tuple) else "",
)
def test_a_bad_option_is_one_line(command: Command, words: tuple[str, ...], message: str) -> None:
    contents = {"empty": "", "blank": " \n\n", "broken": '{"a": [', "deep": "[" * 100_000, "list": "[]"}
    contents |= {"strings": '{"a": "b"}', "other": '{"a": ["b"]}'}
    for name, text in contents.items():
        Path(name).write_text(text)
    assert_one_line(command("score", "story.txt", *words), message)


def test_more_stories_than_colours_are_one_line(command: Command) -> None:
    outcome = command("score", *["story.txt"] * 9, "--plot", "scores.png")
    assert_one_line(outcome, "--plot draws 8 stories at most, not 9")
    assert not Path("scores.png").exists()


def test_no_model_at_all_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARP_MODEL")
    monkeypatch.setattr(bundled, "DEFAULT_MODEL", "none")
    assert_one_line(command("score", "story.txt"), "--model", "CARP_MODEL")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train",), "name a configuration with --config: a YAML file or one of carp_base"),
        (("train", "--config", "carp_huge"), "no such file and no preset"),
        (
            ("train", "-c", "carp_nano", "train.step=3"),
            "unknown key train.step; the nearest known one is train.steps",
        ),
        (("train", "-c", "carp_nano", "train.steps=x"), "train.steps: "),
        (("train", "-c", "carp_nano", "steps"), "write options as section.key=value"),
        (("info", "carp_huge"), "carp_huge: no preset (carp_base, "),
        (("info", "."), "holds no CARP model"),
        (("info", "nobody/nothing"), "holds no CARP model"),
        (("push", ".", "me/model"), "no CARP model (it has no config.json)"),
        (("convert", "none.pt", "out"), "none.pt: no such file"),
    ],
)
def test_errors_of_other_commands_are_one_line(command: Command, words: tuple[str, ...], message: str) -> None:
    assert_one_line(command(*words), message)


def test_an_interruption_ends_with_130_and_no_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(paths: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("carp.scoring.stories.read_stories", interrupted)
    outcome = command("score", "story.txt")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


def test_in_a_process_of_its_own_nothing_else_is_printed(command: Command, model_folder: Path) -> None:
    (row,) = json_rows(command("score", "story.txt", "--json"))
    code = "from carp.cli.main import main; main()"
    good = python(code, "score", "story.txt", "--json", "--model", str(model_folder))
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["scores"] == pytest.approx(row["scores"], abs=1e-5)
    bad = python(code, "score", "story.txt", "--model", "nobody/nothing")
    assert_one_line(Outcome(bad.returncode, bad.stdout, bad.stderr), "nobody/nothing")


# -- info and keys -----------------------------------------------------------------------------------------


def number_behind(label: str, text: str) -> int:
    found = re.search(rf"{label}\W+([\d,]+)", text)
    assert found, f"no {label!r} in {text}"
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize(("name", "millions"), [("carp_tiny", 58), ("carp_base", 252), ("carp_large", 715)])
def test_info_counts_the_papers_parameters_with_and_without_poolers(command: Command, name: str, millions: int) -> None:
    outcome = command("info", name)
    assert (outcome.code, outcome.err) == (0, "")
    bare = number_behind("parameters in all", outcome.out)
    counted = number_behind("with poolers, as the paper counts", outcome.out)
    width = number_behind("width", outcome.out)
    assert counted - bare == 2 * width * (width + 1)
    assert bare == pytest.approx(millions * 1e6, rel=0.01)
    assert counted == pytest.approx(millions * 1e6, rel=0.01)


@pytest.mark.parametrize(
    ("name", "layers", "width", "vocabulary"),
    [
        ("carp_tiny", 4, 512, 28_997),
        ("carp_base", 12, 768, 50_266),
        ("carp_large", 24, 1024, 50_266),
        ("carp_mini", 6, 384, 30_523),
        ("carp_nano", 2, 64, 3000),
    ],
)
def test_info_shows_the_architecture(command: Command, name: str, layers: int, width: int, vocabulary: int) -> None:
    out = command("info", name).out
    assert number_behind("layers", out) == layers
    assert number_behind("width", out) == width
    assert number_behind("vocabulary with the quote token", out) == vocabulary


def test_info_counts_a_checkpoint_as_it_is(command: Command, model: CarpModel, model_folder: Path) -> None:
    out = command("info", str(model_folder)).out
    assert number_behind("parameters in all", out) == sum(p.numel() for p in model.parameters())
    assert number_behind("embedding width", out) == 24


def test_keys_lists_every_key_with_its_default(command: Command) -> None:
    outcome = command("train", "--keys")
    assert outcome.code == 0
    sections = {"model": ModelSettings, "data": DataSettings, "train": TrainSettings}
    keys = [f"{name}.{key}" for name, section in sections.items() for key in section.model_fields]
    assert [key for key in keys if not re.search(rf"{re.escape(key)}\b", outcome.out)] == []
    assert number_behind(r"train\.steps", outcome.out) == 1400


def test_bars_of_equal_scores_are_whole(command: Command) -> None:
    outcome = command("score", "story.txt", "-r", "One.")
    assert outcome.code == 0
    assert re.findall("█+", outcome.out) == ["█" * 24]
    assert np.isfinite(float(re.findall(r"[+-]\d\.\d{3}", outcome.out)[0]))
