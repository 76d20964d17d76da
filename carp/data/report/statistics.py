"""Shares with Wilson intervals, and summaries of lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z = 1.959964  # of a 95 % interval
Interval = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """``count`` of ``n``, with a 95 % Wilson interval; ``None`` where there is nothing to count."""

    count: int
    n: int
    share: float | None
    interval: Interval | None


def share(count: int, n: int) -> Share:
    """The share ``count / n`` and its 95 % Wilson interval (Wilson, 1927)."""
    if n == 0:
        return Share(0, 0, None, None)
    p, z2 = count / n, Z * Z / n
    centre = (p + z2 / 2) / (1 + z2)
    reach = Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2)
    low = 0.0 if count == 0 else centre - reach
    high = 1.0 if count == n else centre + reach
    return Share(int(count), n, p, (low, high))


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths; the whiskers are those of a box plot: the last values within 1.5 IQR of the box."""

    n: int
    mean: float
    mean_interval: Interval
    minimum: int
    q1: float
    median: float
    q3: float
    p95: float
    maximum: int
    whisker_low: int
    whisker_high: int


def lengths(values: NDArray[np.int64]) -> Lengths | None:
    """Summarise lengths [n]; the interval of the mean is the normal approximation, 95 %. ``None`` for no values."""
    if len(values) == 0:
        return None
    mean = float(values.mean())
    reach = Z * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    q1, median, q3, p95 = (float(v) for v in np.percentile(values, [25, 50, 75, 95]))
    inside = values[(values >= q1 - 1.5 * (q3 - q1)) & (values <= q3 + 1.5 * (q3 - q1))]
    return Lengths(
        n=len(values),
        mean=mean,
        mean_interval=(mean - reach, mean + reach),
        minimum=int(values.min()),
        q1=q1,
        median=median,
        q3=q3,
        p95=p95,
        maximum=int(values.max()),
        whisker_low=int(inside.min()),
        whisker_high=int(inside.max()),
    )
