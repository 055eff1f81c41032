"""`python -m emblema.bench`: what it prints is whole and says the same of both ways."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

_SMALL = "--layers 1 --heads 4 --lengths 70 --first-token 70 --rounds 1".split()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "emblema.bench", *arguments],
        capture_output=True, text=True, check=False,
    )


def test_a_small_run_compares_both_geometries() -> None:
    run = _run("transformers", "--json", *_SMALL)
    assert run.returncode == 0, run.stderr
    results = json.loads(run.stdout)
    assert results["schema"] == 1
    by_name = {one["name"]: one for one in results["results"]}
    assert set(by_name) == {
        f"{model} {case}"
        for model in ("MLA", "GQA")
        for case in ("payload", "decode", "first token")
    }
    # 4 heads of 128 + 128 against 512 + 64; keys and values against keys and values.
    assert by_name["MLA payload"]["bytes_per_token"] == 2 * 576
    assert by_name["MLA payload"]["expanded_bytes_per_token"] == 2 * 4 * (128 + 128)
    assert by_name["GQA payload"]["bytes_per_token"] == 2 * 2 * 8 * 128
    assert by_name["GQA payload"]["ratio"] == 1
    for model in ("MLA", "GQA"):
        # Both attend over the same rows with the same query: what differs is rounding to bf16.
        assert by_name[f"{model} decode"]["difference"] < 0.02


def test_the_published_geometry_is_what_is_measured() -> None:
    from emblema.bench.transformers_bench import payload_ratio

    assert payload_ratio(heads=128) == pytest.approx(32768 / 576, abs=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transformers", "--rounds", "0"], "argument --rounds: is '0'; allowed: 1 to 1048576"),
        (["transformers", "--lengths", "4096,x"], "argument --lengths: is 'x'; allowed: 1 to"),
        (["disk"], "argument subject: invalid choice: 'disk'"),
        (["transformers", "--lengths", "40000"], "lengths is 40000; allowed: 1 to 32000"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], message: str) -> None:
    run = _run(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert message in run.stderr
    assert run.stderr.count("\n") == 1
