"""Checkpoints from and to the Hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from tqdm.auto import tqdm

from carp.constants import COMPACT, REFERENCE
from carp.errors import InputError
from carp.model.bundled import bundled_checkpoint

# Its bases are OSError and the base of all errors of the HTTP library (httpx or, since 2.0, httpx2) below.
HUB_ERRORS: tuple[type[Exception], ...] = (*HfHubHTTPError.__bases__, HFValidationError)
# What makes a model. ``*`` also matches ``/``, so no pattern may begin with it: a run's checkpoints and
# optimiser state stay at home.
MODEL_FILES = [
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "passage_tokenizer/*",
    "critique_tokenizer/*",
    REFERENCE,
]
CHECKPOINT_FILES = [*MODEL_FILES, "README.md", "curves.png", "training.yaml"]
NEEDED_FILES = {  # what the message calls it: pattern
    "config.json": "config.json",
    "model.safetensors": "model*.safetensors",
}
TOKENIZER_FILES = {
    "passage_tokenizer": "passage_tokenizer/tokenizer*",
    "critique_tokenizer": "critique_tokenizer/tokenizer*",
}


class TerminalBar(tqdm):
    """Bars of downloads for people, who see them vanish at the end; not for log files."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"disable": not sys.stderr.isatty(), "leave": False})


def checkpoint_folder(name: str | os.PathLike[str], **options: Any) -> str:
    """A folder, a bundled checkpoint's, or the cached copy of a Hub repository, brought up to date where that works.

    All files come from one commit, whatever is pushed meanwhile. Where there is no Hub, the cache serves at
    once: left to themselves, the tokenizers would wait for a minute and a half.

    Raises:
        InputError: if there is neither a folder, nor a repository, nor a cached copy.
    """
    if Path(name).exists():
        return str(name)
    if bundled := bundled_checkpoint(name):
        return str(bundled)
    try:
        return str(snapshot_download(str(name), allow_patterns=MODEL_FILES, tqdm_class=TerminalBar, **options))
    except RepositoryNotFoundError as error:
        reason = "neither a folder nor a repository on the Hub (a private one needs `hf auth login`)"
        raise InputError(f"{name}: {reason}") from error
    except RevisionNotFoundError as error:
        raise InputError(f"{name}: the repository has no revision {options.get('revision')!r}") from error
    except LocalEntryNotFoundError as error:
        raise InputError(f"{name}: no such folder, not in the cache, and the Hub is out of reach") from error
    except HUB_ERRORS as error:
        raise InputError(f"cannot download {str(name)!r}: {_one_line(error)}") from error


def push_folder(
    folder: Path,
    repository: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    message: str = "Upload CARP model",
    token: str | bool | None = None,
    create_pr: bool = False,
) -> str:
    """Upload a checkpoint folder, card included.

    Args:
        folder: what ``save_pretrained`` or a finished run has written.
        repository: ``organisation/name``; created where it does not exist.

    Returns:
        The commit's address.

    Raises:
        InputError: if the folder is no checkpoint, or the Hub refuses.
    """
    check_checkpoint(folder, folder)
    if not (folder / "README.md").is_file():
        raise InputError(f"{folder}: no README.md; name the folder of a finished run, or write a model card")
    api = HfApi(token=token)
    try:
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        if revision not in (None, "main") and not create_pr:
            api.create_branch(name, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=CHECKPOINT_FILES,
            commit_message=message,
            revision=revision,
            create_pr=create_pr,
        )
    except HUB_ERRORS as error:
        raise InputError(f"cannot push to {repository!r}: {_one_line(error)}") from error
    return str(commit.commit_url)


def check_checkpoint(folder: str | os.PathLike[str], name: str | os.PathLike[str]) -> None:
    """Name what a folder lacks; transformers' own messages would not.

    Raises:
        InputError: if the folder holds no whole CARP model.
    """
    # The tokenizers of a compact checkpoint are those of the encoder that it builds on.
    tokenizers = () if (Path(folder) / COMPACT).exists() else TOKENIZER_FILES.items()
    for needed, pattern in (*NEEDED_FILES.items(), *tokenizers):
        if not any(Path(folder).glob(pattern)):
            raise InputError(f"{name}: no CARP model (it has no {needed})")
    if not tokenizers and (Path(folder) / "model.safetensors").exists():
        raise InputError(f"{name}: holds two models, model.safetensors and {COMPACT}: remove one")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
