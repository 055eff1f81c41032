"""The type stub is a golden file: a change of the interface shows in review."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "python/emblema/_core.pyi"
COMMAND = ["-m", "nanobind.stubgen", "-q", "-m", "emblema._core", "-p", "python/src/stubs.pat"]


def test_the_stub_is_what_nanobind_writes(tmp_path):
    pytest.importorskip("nanobind", reason="nanobind, which writes the stub, is not installed")
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, *COMMAND, "-o", str(fresh)], cwd=ROOT, check=True)
    again = f"cd {ROOT.name} && python {' '.join(COMMAND)} -o python/emblema/_core.pyi"
    assert fresh.read_text() == GOLDEN.read_text(), f"after a change that is meant: {again}"


def test_everything_public_says_what_it_is():
    import emblema

    for name in emblema.__all__:
        thing = getattr(emblema, name)
        assert thing.__doc__, name
        if isinstance(thing, type) and not issubclass(thing, Exception):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert value.__doc__, f"{name}.{member}"
