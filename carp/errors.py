"""Errors that people see as one line; the command line turns them into an exit code."""

from __future__ import annotations


class CarpError(Exception):
    """Something went wrong that the message explains; ``exit_code`` is the command's exit code."""

    exit_code = 1


class InputError(CarpError, ValueError):
    """The input (file, option, text) is at fault; the message names it and the mend."""

    exit_code = 2


class NonFiniteLossError(CarpError):
    """The loss became NaN or infinite; no gradient was written."""
