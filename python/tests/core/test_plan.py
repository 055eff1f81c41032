"""emblema.plan, and that it is the command's answer."""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from core_models import TINY

import emblema
from emblema import _core, planning


def command(*arguments):
    code, output, complaint = _core.run_command(list(arguments))
    assert (code, complaint) == (0, "")
    return output


def test_a_plan_is_what_the_command_says():
    plan = emblema.plan("deepseek-v3", at=["8k", 1], pool="40GiB")
    assert str(plan) + "\n" == command("plan", "deepseek-v3", "--at", "8k,1", "--pool", "40GiB")
    assert plan.json == json.loads(
        command("plan", "deepseek-v3", "--at", "8k,1", "--pool", "40GiB", "--json"))
    assert plan["ranks"][0]["name"] == "tp0"
    # 61 layers x (512 + 64) numbers of 2 bytes; 40 GiB in blocks of 64 such tokens.
    assert plan.growing_bytes_per_token == 61 * 576 * 2 == 70_272
    assert plan.bytes_per_sequence == {1: 70_272, 8192: 8192 * 70_272}
    assert plan.tokens == (40 << 30) // (64 * 70_272) * 64
    assert (plan.model, plan.attention) == ("deepseek-v3", "61 x MLA")


def test_its_engine_options_open_the_engine_that_it_plans():
    plan = emblema.plan("deepseek-v3", pool="40GiB", context="32k")
    engine = emblema.Engine("deepseek-v3", metadata_only=True, **plan.engine_options)
    assert (engine.plan.tokens, engine.plan.sequences) == (plan.tokens, plan.concurrency)


def test_figures_stay_exact_where_strides_make_them_fractions():
    plan = emblema.plan("deepseek-v4-flash", kv_dtype="fp8_ds_mla")
    exact = emblema.Geometry("deepseek-v4-flash", kv_dtype="fp8_ds_mla").growing_bytes_per_token
    assert plan.growing_bytes_per_token == exact
    assert isinstance(exact, Fraction) and exact.denominator > 1


def test_several_models_are_a_list():
    plans = emblema.plan("deepseek-v3", "qwen3-32b", TINY, at=1)
    assert [plan.model for plan in plans] == ["deepseek-v3", "qwen3-32b", "config"]
    assert [plan.growing_bytes_per_token for plan in plans] == [70_272, 262_144, 2 * 64 * 2]
    assert str(plans[2]).startswith("2 x GQA: 256 bytes per token")


def test_a_model_may_be_a_dict_a_path_or_a_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    config = emblema.ModelConfig.from_json(json.dumps(TINY), name="me/tiny")
    assert (config.name, config.num_hidden_layers, config.layers[1].head_dim) == ("me/tiny", 2, 16)
    for model in (TINY, tmp_path, str(tmp_path / "config.json"), config,
                  emblema.ModelConfig.load(tmp_path)):
        assert emblema.plan(model).growing_bytes_per_token == 256
        assert emblema.Geometry(model).growing_bytes_per_token == 256
    assert emblema.plan(config).model == "me_tiny"


def test_options_are_the_commands():
    plan = emblema.plan("deepseek-v3", gpu="h200", gpus=8, tp=8, per_layer=True, explain=True,
                        compare=["vllm", "sglang"], html=None, dp_attention=8)
    assert plan["hardware"]["name"].lower() == "h200"
    assert len(plan["engines"]) == 2 and plan["explanations"]
    assert plan.concurrency == json.loads(
        command("plan", "deepseek-v3", "--gpu=h200", "--gpus=8", "--tp=8", "--dp-attention=8",
                "--json"))["concurrency_total"]


def test_pages_and_pictures(tmp_path):
    svg = tmp_path / "a.svg"
    plan = emblema.plan("deepseek-v3", svg=svg)
    assert svg.read_text().startswith("<svg")
    svg.unlink()
    page = plan.html(tmp_path / "a.html")
    assert page == (tmp_path / "a.html").read_text() and "70,272" in page
    assert "70,272" in plan.html()
    assert not svg.exists(), "a picture is written once"
    assert plan._repr_html_().startswith("<pre>61 x MLA: 70,272 bytes per token")


def test_a_refusal_is_the_commands_line():
    for arguments, options, error in (
        (["deepseek-v9"], {}, emblema.NotFoundError),
        (["deepseek-v3"], {"tp": 7}, emblema.InvalidError),
        (["deepseek-v3"], {"no_such": 1}, emblema.InvalidError),
        (["qwen3-32b"], {"at": "x"}, emblema.InvalidError),
        (["deepseek-v3"], {"kv_dtype": "int8_per_token_head"}, emblema.UnsupportedError),
    ):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        code, output, complaint = _core.run_command(["plan", *arguments, *flags])
        assert (code, output) == (2, "")
        with pytest.raises(error) as caught:
            emblema.plan(*arguments, **options)
        assert str(caught.value) == complaint


def test_what_is_no_plan_is_a_type_error():
    with pytest.raises(TypeError):
        emblema.plan()
    with pytest.raises(TypeError, match="'json'"):
        emblema.plan("deepseek-v3", json=True)


def test_the_command_line_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "emblema", "plan", "deepseek-v3", "--at=1"],
                         capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (
        0, command("plan", "deepseek-v3", "--at=1"), "")
    wrong = subprocess.run([sys.executable, "-m", "emblema", "plan", "deepseek-v9"],
                           capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith('emblema plan: model "deepseek-v9" is neither')


def test_presets():
    assert "deepseek-v3" in emblema.presets() and emblema.presets() == sorted(emblema.presets())


def test_geometry_counts_bytes():
    geometry = emblema.Geometry("mistral-7b", kv_dtype="bf16")
    layer = geometry.layers[0]
    assert (layer.kind, layer.query_heads, layer.kv_heads, layer.key_dim) == ("gqa", 32, 8, 128)
    assert layer.window_tokens == 4096 and layer.row_bytes == 8 * 256 * 2
    assert geometry.growing_bytes_per_token == 0
    assert geometry.bytes_per_sequence(10_000) == 32 * 4096 * 8 * 256 * 2
    assert geometry.groups == ["window 4096"] and geometry.block_tokens == [16]
    [stream] = layer.streams
    assert (stream.role, stream.retention, stream.stride_tokens) == ("kv", "window", 1)
    assert len(geometry.fingerprint) == 32
    assert geometry.fingerprint != emblema.Geometry("mistral-7b", kv_dtype="fp16").fingerprint


def test_an_option_that_wants_a_value_takes_no_true(tmp_path, monkeypatch):
    """--html would take the next argument for its file."""
    monkeypatch.chdir(tmp_path)
    for option in ("html", "gpus", "kv_dtype", "pool"):
        with pytest.raises(emblema.InvalidError, match=f"{option} is True; allowed: a value"):
            emblema.plan("deepseek-v3", **{option: True})
    with pytest.raises(TypeError, match="unexpected keyword argument 'help'"):
        emblema.plan("deepseek-v3", help=True)
    assert list(tmp_path.iterdir()) == []
    assert emblema.plan("deepseek-v3", per_layer=True, explain=True).growing_bytes_per_token


def test_flags_are_those_of_the_command():
    _, text, _ = _core.run_command(["plan", "--help"])
    without_value = {line.split()[0] for line in text.split("\n") if line.startswith("  --")
                     and line[2:34].strip().count(" ") == 0}
    flags = {f"--{name.replace('_', '-')}" for name in planning._FLAGS}
    assert flags == without_value - {"--json", "--reproduce"}


def test_lengths_of_any_kind():
    lengths = [1, 2, 3]
    for given in (lengths, range(1, 4), (n for n in lengths), np.array(lengths)):
        assert list(emblema.plan("deepseek-v3", at=given).bytes_per_sequence) == lengths
