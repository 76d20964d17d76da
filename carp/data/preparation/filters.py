"""Critiques that say nothing about the passage (CARP, section 2.2.3)."""

from __future__ import annotations

import re

MIN_CHARACTERS = 8

# What is said of an answer to a task, and not of a story. Each pattern was looked at on real comments; a critique is
# dropped only where all of its sentences that name a subject at all are about these.
_OFF_TOPIC = re.compile(
    r"\b(?:the|this|your|its)\s+(?:response|output|submission|assignment|word\s+(?:count|limit)|prompt|instructions?"
    r"|requirements?|brief|constraints?)\b|\bword[- ]count\b|\b\d[\d,]*\s*words?\b|\bprompt(?:'s|’s|ed)?\b"
    r"|\b(?:model|AI|LLM|author of the prompt)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")


def drop_reason(passage: str, critique: str, off_topic: bool = False) -> str | None:
    """Why a pair is of no use, or ``None``.

    Args:
        passage, critique: as they would be written.
        off_topic: also drop critiques that are about the task, its prompt or its word count in every sentence.
    """
    if len(passage.strip()) < MIN_CHARACTERS:
        return "short passage"
    if len(critique.strip()) < MIN_CHARACTERS:
        return "short critique"
    if not re.search(r"\w", critique.replace("[quote]", "")):
        return "nothing but quotes"
    if off_topic and is_off_topic(critique):
        return "about the task, not the passage"
    return None


def is_off_topic(critique: str) -> bool:
    """Whether every sentence is about the response as such, its prompt or its length."""
    sentences = [s for s in _SENTENCE.findall(critique) if re.search(r"\w", s)]
    return bool(sentences) and all(_OFF_TOPIC.search(sentence) for sentence in sentences)
