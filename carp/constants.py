"""Names and texts that many modules share; importing them costs nothing."""

from __future__ import annotations

QUOTE_TOKEN = "[quote]"  # one token of its own in both tokenizers
REFERENCE = "reference.safetensors"  # of a checkpoint: embeddings that scores are compared with
COMPACT = "model-compact.safetensors"  # of a checkpoint that holds changes of public encoders
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
