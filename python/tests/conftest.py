"""What all tests share: without torch, those of the folder `transformers` are left out, and the
last lines say so."""

import importlib.util

import pytest

TORCH_IS_THERE = importlib.util.find_spec("torch") is not None

collect_ignore = [] if TORCH_IS_THERE else ["transformers"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TORCH_IS_THERE:
        terminalreporter.write_line(
            "skipped: the tests that need torch, which is not installed "
            "(tools/python_setup says why)")
