"""Loading from and pushing to the Hub, against an imitation of it on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PATIENCE, tiny_config
from hub_imitation import CRITIQUES, PASSAGES, TOKEN, Client, Files, HubImitation, blob_of, client_environment
from huggingface_hub import try_to_load_from_cache
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp import CarpModel
from carp.data.pairs import read_pairs
from carp.model.encoders import train_tokenizer

WEIGHTS = "model.safetensors"
CHECKPOINT = {
    "config.json",
    WEIGHTS,
    "README.md",
    *(
        f"{side}_tokenizer/{name}.json"
        for side in ("passage", "critique")
        for name in ("tokenizer", "tokenizer_config")
    ),
}


# -- the Hub, its clients and a model to serve ---------------------------------------------------------


@pytest.fixture(scope="module")
def hub() -> Iterator[HubImitation]:
    imitation = HubImitation()
    yield imitation
    imitation.stop()


@pytest.fixture(scope="module")
def stopped_hub() -> str:
    """The address of a Hub that is no longer there."""
    imitation = HubImitation()
    imitation.stop()
    return imitation.url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HF_HOME: what the clients have in their cache."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def client(hub: HubImitation, home: Path) -> Iterator[Client]:
    with Client(hub.url, home) as made:
        yield made


@pytest.fixture(scope="module")
def offline_client(stopped_hub: str, home: Path) -> Iterator[Client]:
    """A second process with the same cache, told to stay offline, after the Hub is gone."""
    with Client(stopped_hub, home, offline=True) as made:
        yield made


@pytest.fixture(scope="module")
def cut_off_client(stopped_hub: str, home: Path) -> Iterator[Client]:
    """A process with the same cache that expects a Hub where there is none."""
    with Client(stopped_hub, home) as made:
        yield made


@pytest.fixture(scope="module")
def critique_tokenizer() -> PreTrainedTokenizerBase:
    """Another one than the passages', so that mixing them up shows."""
    return train_tokenizer((critique for _, critique, *_ in read_pairs("sample")), 400, 48)


@pytest.fixture
def folders(
    tokenizer: PreTrainedTokenizerBase, critique_tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> tuple[Path, Path]:
    """Two saved models that differ in their weights."""
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = CarpModel(tiny_config(len(tokenizer)))
        model.passage_tokenizer, model.critique_tokenizer = tokenizer, critique_tokenizer
        model.save_pretrained(tmp_path / f"model{seed}")
    return tmp_path / "model1", tmp_path / "model2"


@pytest.fixture
def folder(folders: tuple[Path, Path]) -> Path:
    return folders[0]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("The ship sailed at dawn.")
    return path


def files_of(folder: Path) -> Files:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_loaded(answer: dict[str, Any], folder: Path) -> None:
    """The client's embeddings are those of the local folder."""
    assert "error" not in answer, answer
    local = CarpModel.from_pretrained(folder)
    expected = {"passages": local.encode_passages(PASSAGES), "critiques": local.encode_critiques(CRITIQUES)}
    for side, embeds in expected.items():
        torch.testing.assert_close(torch.tensor(answer[side]), embeds, atol=1e-6, rtol=0)


def assert_input_error(answer: dict[str, Any], *named: str) -> None:
    """An InputError of one line that names what is wrong."""
    assert answer.get("error") == "InputError", answer
    assert "\n" not in answer["message"].strip()
    for part in named:
        assert part in answer["message"]


def assert_refused(answer: dict[str, Any], *named: str) -> None:
    """Exit code 2 and one line that names what is wrong."""
    assert answer["code"] == 2, answer["err"]
    assert answer["err"].startswith("carp: ")
    assert len(answer["err"].splitlines()) == 1, answer["err"]
    for part in named:
        assert part in answer["err"]


# -- loading -------------------------------------------------------------------------------------------


def test_a_repository_loads_like_the_folder(hub: HubImitation, client: Client, folder: Path) -> None:
    hub.repositories["org/plain"] = {"main": files_of(folder)}
    assert_loaded(client.load("org/plain"), folder)
    found = [asked for asked in hub.asked("HEAD", "/org/plain/resolve/") if asked.status == 200]
    assert {asked.path.split("/", 5)[5] for asked in found} == CHECKPOINT - {"README.md"}
    assert {asked.authorization for asked in found} == {f"Bearer {TOKEN}"}


def test_a_revision_is_loaded_whole(hub: HubImitation, client: Client, folders: tuple[Path, Path]) -> None:
    first, second = folders
    hub.repositories["org/versions"] = {"main": files_of(first), "v2": files_of(second)}
    on_main, on_second = client.load("org/versions"), client.load("org/versions", revision="v2")
    assert_loaded(on_main, first)
    assert_loaded(on_second, second)
    assert not torch.allclose(torch.tensor(on_main["passages"]), torch.tensor(on_second["passages"]), atol=1e-3)
    cached = try_to_load_from_cache("org/versions", WEIGHTS, client.cache, revision="v2")
    assert Path(str(cached)).read_bytes() == files_of(second)[WEIGHTS]


def test_tokenizers_come_from_the_same_revision(
    hub: HubImitation, client: Client, folder: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    """``main`` has no tokenizers at all, so that none of them can come from there."""
    without = {path: content for path, content in files_of(folder).items() if "tokenizer/" not in path}
    hub.repositories["org/tokenizers"] = {"main": without, "v2": files_of(folder)}
    assert_loaded(client.load("org/tokenizers", revision="v2"), folder)


def test_all_of_a_load_is_one_commit(hub: HubImitation, client: Client, folder: Path) -> None:
    """A push between the weights and the tokenizers must not mix two models: ``main`` is resolved once."""
    hub.repositories["org/moving"] = {"main": files_of(folder)}
    assert_loaded(client.load("org/moving"), folder)
    assert len(hub.asked("GET", "/api/models/org/moving(/revision/main)?$")) == 1


def test_the_cache_serves_offline(hub: HubImitation, client: Client, offline_client: Client, folder: Path) -> None:
    hub.repositories["org/cached"] = {"main": files_of(folder)}
    assert_loaded(client.load("org/cached"), folder)
    assert_loaded(offline_client.load("org/cached"), folder)


def test_the_cache_serves_at_once_when_the_hub_is_gone(
    hub: HubImitation, client: Client, cut_off_client: Client, folder: Path
) -> None:
    hub.repositories["org/cached-too"] = {"main": files_of(folder)}
    assert_loaded(client.load("org/cached-too"), folder)
    answer = cut_off_client.load("org/cached-too")
    assert_loaded(answer, folder)
    assert answer["waited"] < 30


@pytest.mark.parametrize("without_hub", ["offline_client", "cut_off_client"])
def test_no_cache_and_no_hub_is_one_line(without_hub: str, request: pytest.FixtureRequest, story: Path) -> None:
    client: Client = request.getfixturevalue(without_hub)
    assert_input_error(client.load("org/never-seen"), "org/never-seen")
    assert_refused(client.carp("score", story, "--model", "org/never-seen"), "org/never-seen")


# -- broken downloads ----------------------------------------------------------------------------------


def test_an_interrupted_download_is_resumed(hub: HubImitation, client: Client, folder: Path) -> None:
    files = files_of(folder)
    hub.repositories["org/cut"] = {"main": files}
    hub.cut("org/cut", WEIGHTS, at=20_000)
    assert_loaded(client.load("org/cut"), folder)
    whole, rest = hub.asked("GET", f"/org/cut/resolve/[^/]+/{WEIGHTS}")
    assert (whole.range, whole.status, rest.status) == (None, 200, 206)
    start = int(str(rest.range).removeprefix("bytes=").removesuffix("-"))
    assert 0 < start <= 20_000
    cached = Path(str(try_to_load_from_cache("org/cut", WEIGHTS, client.cache)))
    assert blob_of(cached.read_bytes()) == blob_of(files[WEIGHTS])


@pytest.mark.parametrize("file", ["config.json", WEIGHTS, "passage_tokenizer/tokenizer.json"])
def test_a_download_that_never_ends_leaves_no_broken_model(
    hub: HubImitation, client: Client, offline_client: Client, folder: Path, file: str
) -> None:
    repo = f"org/dead-{file.replace('/', '-')}"
    hub.repositories[repo] = {"main": files_of(folder)}
    hub.cut(repo, file, at=100, times=None)
    assert_input_error(client.load(repo), repo)
    assert hub.asked("GET", f"/{repo}/resolve/[^/]+/{file}") != []
    assert not isinstance(try_to_load_from_cache(repo, file, client.cache), str)
    assert_input_error(client.load(repo, local_files_only=True), repo)
    assert_input_error(offline_client.load(repo), repo)
    hub.heal()
    assert_loaded(client.load(repo), folder)


# -- what is missing -----------------------------------------------------------------------------------


def test_a_missing_repository_is_one_line(hub: HubImitation, client: Client, story: Path) -> None:
    assert_input_error(client.load("org/missing"), "org/missing")
    assert_refused(client.carp("score", story, "--model", "org/missing"), "org/missing")


def test_a_missing_repository_ends_the_real_command(hub: HubImitation, story: Path, tmp_path: Path) -> None:
    """The command as people run it: also the libraries' own logs must not bury the line."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from carp.cli.main import main; main()",
            "score",
            story,
            "--model",
            "org/missing",
        ],
        env=client_environment(hub.url, tmp_path / "home", offline=False),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert_refused({"code": done.returncode, "err": done.stderr}, "org/missing")
    assert done.stdout == ""


def test_a_missing_revision_is_one_line(hub: HubImitation, client: Client, folder: Path) -> None:
    hub.repositories["org/one-revision"] = {"main": files_of(folder)}
    assert_input_error(client.load("org/one-revision", revision="v9"), "org/one-revision", "v9")


@pytest.mark.parametrize("missing", ["config.json", WEIGHTS, "passage_tokenizer", "critique_tokenizer"])
def test_a_missing_file_is_one_line(hub: HubImitation, client: Client, folder: Path, story: Path, missing: str) -> None:
    repo = f"org/lacking-{len(hub.repositories)}"  # without the missing name, which the message must give
    kept = {path: content for path, content in files_of(folder).items() if not path.startswith(missing)}
    hub.repositories[repo] = {"main": kept}
    assert_input_error(client.load(repo), repo, missing)
    assert_refused(client.carp("score", story, "--model", repo), repo, missing)


def test_missing_weights_start_no_conversion(hub: HubImitation, client: Client, folder: Path) -> None:
    """transformers would ask a service elsewhere to open a pull request on somebody's repository."""
    kept = {path: content for path, content in files_of(folder).items() if path != WEIGHTS}
    hub.repositories["org/unconverted"] = {"main": kept}
    client.load("org/unconverted")
    assert hub.asked("GET", "/api/models/org/unconverted/(commits|discussions)") == []


# -- pushing -------------------------------------------------------------------------------------------


@pytest.fixture
def run_folder(folder: Path) -> Path:
    """A finished run: the checkpoint, what belongs beside it, and what must stay at home."""
    for name in ("curves.png", "training.yaml"):
        (folder / name).write_text(name)
    for name in (
        "metrics.jsonl",
        "training.json",
        "optimizer-0.safetensors",
        "checkpoints/step-000100/model.safetensors",
        "checkpoints/step-000100/config.json",
        "checkpoints/step-000100/README.md",
        "checkpoints/step-000100/training.json",
        "checkpoints/step-000100/optimizer-0.safetensors",
        "checkpoints/step-000100/passage_tokenizer/tokenizer.json",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_push_to_hub_uploads_what_loads_back(hub: HubImitation, client: Client, folder: Path) -> None:
    answer = client.push_model(folder, "org/pushed", private=True, commit_message="First.")
    pushed = hub.repositories["org/pushed"]["main"]
    assert answer["address"].startswith(f"{hub.url}/org/pushed/commit/")
    assert set(pushed) == CHECKPOINT
    assert pushed["README.md"].startswith(b"---\nlibrary_name: carp\n")
    assert pushed[WEIGHTS] == files_of(folder)[WEIGHTS]
    assert b'"visibility":"private"' in hub.asked("POST", "/api/repos/create")[-1].body.replace(b": ", b":")
    assert b'"summary": "First."' in hub.asked("POST", "/api/models/org/pushed/commit/main")[0].body
    assert_loaded(client.load("org/pushed"), folder)


def test_carp_push_leaves_the_runs_own_files_at_home(hub: HubImitation, client: Client, run_folder: Path) -> None:
    answer = client.carp("push", run_folder, "org/run")
    assert (answer["code"], answer["out"].startswith("pushed: ")) == (0, True), answer
    assert set(hub.repositories["org/run"]["main"]) == CHECKPOINT | {"curves.png", "training.yaml"}
    assert f"{hub.url}/org/run/commit/" in answer["out"].replace("\n", "")
    assert_loaded(client.load("org/run"), run_folder)


def test_pushing_again_updates_the_repository(hub: HubImitation, client: Client, folders: tuple[Path, Path]) -> None:
    first, second = folders
    assert client.carp("push", first, "org/again")["code"] == 0
    assert client.carp("push", second, "org/again")["code"] == 0
    assert hub.repositories["org/again"]["main"] == files_of(second)
    assert_loaded(client.load("org/again"), second)


def test_carp_push_makes_the_branch(hub: HubImitation, client: Client, folders: tuple[Path, Path]) -> None:
    first, second = folders
    assert client.carp("push", first, "org/branches")["code"] == 0
    answer = client.carp("push", second, "org/branches", "--revision", "v2")
    assert answer["code"] == 0, answer
    assert hub.repositories["org/branches"]["main"] == files_of(first)
    assert_loaded(client.load("org/branches", revision="v2"), second)


@pytest.mark.parametrize("missing", ["config.json", "README.md", WEIGHTS, "passage_tokenizer", "critique_tokenizer"])
def test_carp_push_refuses_what_is_no_checkpoint(hub: HubImitation, client: Client, folder: Path, missing: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix().startswith(missing):
            path.unlink()
    before = len(hub.requests)
    assert_refused(client.carp("push", folder, "org/refused"), str(folder), missing)
    assert "org/refused" not in hub.repositories
    assert len(hub.requests) == before


def test_carp_push_without_a_folder_uploads_nothing(hub: HubImitation, client: Client, tmp_path: Path) -> None:
    before = len(hub.requests)
    assert_refused(client.carp("push", tmp_path / "nowhere", "org/refused"), "nowhere")
    assert len(hub.requests) == before


def test_a_refused_push_is_one_line(hub: HubImitation, client: Client, folder: Path) -> None:
    assert_input_error(client.push_model(folder, "org/forbidden", token="wrong"), "org/forbidden", "401")
    assert_refused(client.carp("push", folder, "no/such/name"), "no/such/name")
    assert "org/forbidden" not in hub.repositories


def test_a_push_to_no_hub_is_one_line(cut_off_client: Client, folder: Path) -> None:
    assert_refused(cut_off_client.carp("push", folder, "org/nobody-home"), "org/nobody-home")


def test_a_push_while_offline_is_one_line(offline_client: Client, folder: Path) -> None:
    assert_refused(offline_client.carp("push", folder, "org/offline"), "org/offline")
