"""The recipe of carp-mini (scripts/mini): its documented commands, on a part of the real data and for a few steps."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE, REPOSITORY, shared_data

import carp
from carp.constants import COMPACT

RECIPE = REPOSITORY / "scripts" / "mini" / "README.md"
SHORTER = {  # what is written -> what is run
    "--budget 256": "--budget 256 --validation-pairs 100",
    "--critiques 4000": "--critiques 300 --damaged 300",
    "train.output=": "train.steps=2 train.batch_size=16 train.evaluate_every=2 train.save_every=2 train.output=",
    "carp probe": "carp probe --limit 10 --resamples 100",
}
EVERY = {"critiques.jsonl.gz": 24, "spans.jsonl.gz": 3, "storyer_ratings.jsonl.gz": 10}
MOST_BYTES = 16_000_000


@pytest.fixture
def some_data(tmp_path: Path) -> Path:
    """Every so many lines of the real files; of the few stories with experts' verdicts all."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, every in EVERY.items():
        with gzip.open(shared_data(name)) as source, gzip.open(folder / name, "wb") as part:
            part.writelines(line for i, line in enumerate(source) if i % every == 0 or b'"source": "ttcw"' in line)
    return folder


def documented_commands(**places: Path) -> str:
    """The shell lines of the recipe's page, with its folders replaced and little work."""
    page = RECIPE.read_text(encoding="utf-8")
    script = re.findall(r"```bash\n(.+?)```", page, re.DOTALL)[0]
    script = re.sub(r"^pip .*\n", "", script)
    for written, place in (
        ("../shared/data", places["data"]),
        ("runs/mini", places["work"]),
        ("checkpoints/carp-mini", places["checkpoint"]),
        *SHORTER.items(),
    ):
        assert written in script
        script = script.replace(written, str(place))
    return script


@pytest.mark.slow
def test_the_documented_recipe_goes_from_raw_data_to_a_model_with_its_card(some_data: Path, tmp_path: Path) -> None:
    checkpoint, work = tmp_path / "checkpoint", tmp_path / "work"
    script = documented_commands(data=some_data, work=work, checkpoint=checkpoint)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=REPOSITORY,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 4,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert sum(file.stat().st_size for file in checkpoint.iterdir()) < MOST_BYTES
    assert (checkpoint / COMPACT).is_file()
    assert "| retrieval among all: critique of a passage | 0." in (checkpoint / "README.md").read_text(encoding="utf-8")
    assert (work / "probe" / "README.md").is_file()
    percentile = carp.score("It was raining. He was sad.", ["Show, don't tell!"], model=checkpoint, calibrated=True)
    assert 0 <= percentile.item() <= 100
