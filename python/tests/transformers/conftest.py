"""Emblema under transformers, against stock transformers. Without torch none of it runs."""

import importlib.util

import pytest


def _missing() -> list[str]:
    # This folder is called transformers too: only a package that has a file is the library.
    specs = {name: importlib.util.find_spec(name) for name in ("torch", "transformers")}
    return [name for name, spec in specs.items() if spec is None or spec.origin is None]


MISSING = _missing()
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds; deselect with -m 'not slow'")


def pytest_terminal_summary(terminalreporter):
    if MISSING:
        names = " and ".join(MISSING)
        terminalreporter.write_line(f"python/tests/transformers: skipped, {names} not installed")


if not MISSING:
    import torch

    # These models are too small for two threads: they would mostly wait for each other.
    torch.set_num_threads(1)


@pytest.fixture
def new_cache(request):
    """Makes EmblemaCaches; whatever one test leaves in the shared engine, no other one finds.

    Called with a model and EmblemaCache's options. All are released when the test ends.
    """
    from emblema.transformers import EmblemaCache

    made = []

    def make(model, **options):
        made.append(EmblemaCache(model, **{"salt": request.node.nodeid, **options}))
        return made[-1]

    yield make
    for cache in made:
        cache.release()
