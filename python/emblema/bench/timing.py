"""Times of several ways of doing one thing, compared within one run."""

import statistics
import time
from collections.abc import Callable


def interleaved(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each way over so many rounds; every round runs each once, so that what
    else the machine does falls on all of them. One run of each goes before, uncounted."""
    for run in ways.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def timed(run: Callable[[], object]) -> float:
    """Seconds of one run."""
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun
