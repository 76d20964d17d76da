"""Uploading checkpoints to the Hub."""

from __future__ import annotations

from pathlib import Path

import httpx
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from carp.errors import InputError

# What makes a checkpoint; a run's own files (its checkpoints, optimiser state) stay at home.
CHECKPOINT_FILES = [
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "passage_tokenizer/*",
    "critique_tokenizer/*",
    "README.md",
    "curves.png",
    "training.yaml",
]


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
    for needed in ("config.json", "README.md"):
        if not (folder / needed).is_file():
            raise InputError(f"{folder}: no checkpoint (it has no {needed}); name the folder of a finished run")
    api = HfApi(token=token)
    try:
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=CHECKPOINT_FILES,
            commit_message=message,
            revision=revision,
            create_pr=create_pr,
        )
    except (HfHubHTTPError, HFValidationError, httpx.HTTPError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"cannot push to {repository!r}: {reason}") from error
    return str(commit.commit_url)
