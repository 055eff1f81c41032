"""What is not served is refused: one error that names the model or argument and what is missing."""

import pathlib

import pytest
import torch
import transformers
import zoo
from compare import assert_equal_logits
from running import CACHE, generate, logits_of, ours
from transformers import AutoConfig

from emblema import InvalidError, UnsupportedError
from emblema.transformers import EmblemaCache, versions

ROOT = pathlib.Path(__file__).resolve().parents[3]

_SMALL = {**zoo._GROUPED, "num_hidden_layers": 4}


def small_model(model_type: str, architecture: str, **settings):
    """A model outside the zoo, as small, with Emblema's attention where that can be set."""
    config = AutoConfig.for_model(model_type, **settings)
    create = getattr(transformers, architecture)._from_config
    try:
        return create(config, attn_implementation="emblema").eval()
    except ValueError:
        return create(config).eval()


UNSUPPORTED = {
    "deepseek_v4": ("DeepseekV4ForCausalLM", {**_SMALL, "moe_intermediate_size": 32}),
    "deepseek_v32": (
        "DeepseekV32ForCausalLM",
        {**zoo.ZOO["deepseek-v3"].settings, "index_n_heads": 2, "index_head_dim": 16},
    ),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        {
            **_SMALL,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 2,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        {
            "hidden_size": 64,
            "num_heads": 8,
            "head_dim": 16,
            "num_hidden_layers": 2,
            "vocab_size": 96,
            "n_groups": 1,
            "state_size": 16,
        },
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4},
    ),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4}),
    "bloom": ("BloomForCausalLM", {"vocab_size": 96, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
}


@pytest.mark.parametrize("model_type", UNSUPPORTED)
def test_a_model_that_is_not_served_is_named(model_type):
    architecture, settings = UNSUPPORTED[model_type]
    model = small_model(model_type, architecture, **settings)
    with pytest.raises(UnsupportedError) as refused:
        EmblemaCache(model)
    message = str(refused.value)
    assert architecture in message and model_type in message and "\n" not in message


def test_a_model_with_another_attention_function_is_told_which():
    with pytest.raises(UnsupportedError, match="'eager'; allowed: attn_implementation='emblema'"):
        EmblemaCache(zoo.build("llama", "eager"))


def test_attention_that_sees_ahead(new_cache):
    """Gemma-3 as an encoder: every token sees every other one."""
    model = zoo.build("gemma3", "emblema", use_bidirectional_attention=True)
    with pytest.raises(UnsupportedError, match="Gemma3|gemma3"):
        logits_of(model, zoo.tokens(20), new_cache(model))


def test_a_mask_of_four_dimensions(new_cache):
    mask = torch.zeros(1, 1, 20, 20)
    with pytest.raises(UnsupportedError, match="attention_mask is a tensor"):
        logits_of(ours("llama"), zoo.tokens(20), new_cache(ours("llama")), attention_mask=mask)


def test_packed_sequences(new_cache):
    """Two texts in one row, told apart by positions that begin again."""
    where = torch.cat([torch.arange(10), torch.arange(10)])[None]
    with pytest.raises((UnsupportedError, InvalidError), match="position_ids"):
        logits_of(ours("llama"), zoo.tokens(20), new_cache(ours("llama")), position_ids=where)


def test_positions_that_leave_some_out(new_cache):
    cache = new_cache(ours("llama"))
    logits_of(ours("llama"), zoo.tokens(20), cache)
    with pytest.raises((UnsupportedError, InvalidError), match="position_ids"):
        logits_of(ours("llama"), zoo.tokens(1), cache, position_ids=torch.tensor([[25]]))
    assert cache.get_seq_length() == 20


def test_a_mask_with_a_hole_that_positions_count(new_cache):
    """Padding may lie between tokens; but then their positions must go on over it."""
    ids, mask = zoo.tokens(20), torch.ones(1, 20, dtype=torch.long)
    mask[0, 5:8] = 0
    with pytest.raises(UnsupportedError, match="position_ids of sequence 0 has 8 for token 5"):
        logits_of(ours("llama"), ids, new_cache(ours("llama")), attention_mask=mask)
    found = logits_of(
        ours("llama"),
        ids,
        new_cache(ours("llama")),
        attention_mask=mask,
        position_ids=mask.cumsum(-1) - 1,
    )
    stock = logits_of(zoo.stock("llama"), ids[mask.bool()][None])
    assert_equal_logits(found[mask.bool()][None], stock)


@pytest.mark.parametrize("shape", [(1, 19), (1, 21), (2, 20)])
def test_a_mask_of_another_shape(shape, new_cache):
    with pytest.raises(InvalidError, match="attention_mask"):
        logits_of(
            ours("llama"),
            zoo.tokens(20),
            new_cache(ours("llama")),
            attention_mask=torch.ones(shape, dtype=torch.long),
        )


def test_another_number_of_rows(new_cache):
    cache = new_cache(ours("llama"))
    logits_of(ours("llama"), zoo.tokens(20), cache)
    with pytest.raises(InvalidError, match="2 sequences; allowed: 1"):
        logits_of(ours("llama"), zoo.tokens(1, 1), cache)
    assert cache.get_seq_length() == 20


def test_a_cache_of_another_model(new_cache):
    cache = new_cache(ours("llama"))
    new_cache(ours("qwen2"))
    with pytest.raises(InvalidError, match="another model"):
        logits_of(ours("qwen2"), zoo.tokens(20), cache)
    with pytest.raises(InvalidError, match="allowed: .*the model"):  # one that never had a cache
        logits_of(zoo.build("llama", "emblema"), zoo.tokens(20), cache)


def test_an_engine_of_another_geometry(new_cache):
    engine = new_cache(ours("llama")).engine
    with pytest.raises(InvalidError, match="engine"):
        EmblemaCache(ours("qwen3"), engine=engine)


def test_attention_weights(new_cache):
    """They are never formed; None where weights were asked for would be a wrong answer."""
    with pytest.raises(UnsupportedError, match="output_attentions"):
        logits_of(ours("llama"), zoo.tokens(20), new_cache(ours("llama")), output_attentions=True)


def test_gradients(new_cache):
    model = zoo.build("llama", "emblema")
    with pytest.raises(UnsupportedError, match="gradient"):
        model(zoo.tokens(20), **{CACHE: new_cache(model)}, use_cache=True).logits.sum().backward()


def test_training_with_dropout(new_cache):
    model = zoo.build("llama", "emblema", attention_dropout=0.1).train()
    with pytest.raises(UnsupportedError, match="dropout"):
        logits_of(model, zoo.tokens(20), new_cache(model))


def test_use_cache_false_beside_a_cache(new_cache):
    with pytest.raises((UnsupportedError, InvalidError), match="use_cache"):
        ours("llama")(zoo.tokens(5), **{CACHE: new_cache(ours("llama"))}, use_cache=False)


def test_a_cache_implementation_beside_a_cache(new_cache):
    with pytest.raises(ValueError, match="cache_implementation"):
        generate(
            ours("llama"),
            zoo.tokens(5),
            new_cache(ours("llama")),
            cache_implementation="static",
            max_new_tokens=2,
        )


def test_a_crop_of_more_than_there_is(new_cache):
    cache = new_cache(ours("llama"))
    logits_of(ours("llama"), zoo.tokens(20), cache)
    with pytest.raises(InvalidError, match="crop of 21 columns; allowed: up to the 20 held"):
        cache.crop(-21)
    assert cache.get_seq_length() == 20


@pytest.mark.parametrize("name", ["gemma3", "gpt-oss"])
def test_a_rollback_beyond_what_windows_kept(name, new_cache):
    """Exact, or refused; never an answer from rows that are gone."""
    cache, ids = new_cache(ours(name)), zoo.tokens(300)
    logits_of(ours(name), ids, cache)
    try:
        cache.crop(-150)
    except UnsupportedError as error:
        assert "window" in str(error)
        return
    found = logits_of(ours(name), ids[:, 150:160], cache)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids[:, :160])[:, 150:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_without_its_cache_the_model_is_stock(name):
    """The attention function alone is no promise of paging, but never a wrong answer."""
    ids, mask = zoo.tokens(30, 50), zoo.mask_of(30, 50)
    found = generate(ours(name), ids, attention_mask=mask, max_new_tokens=6)
    stock = generate(zoo.stock(name), ids, attention_mask=mask, max_new_tokens=6)
    assert found.tolist() == stock.tolist()
    assert_equal_logits(logits_of(ours(name), ids[1:]), logits_of(zoo.stock(name), ids[1:]))


def test_releases_of_transformers_that_were_not_tested():
    versions.check("5.19.0")
    versions.check("5.24.1")
    for old in ("4.57.6", "5.18.9"):
        with pytest.raises(UnsupportedError, match="is too old; tested: 5.19 to 5.24"):
            versions.check(old)
    with pytest.warns(UserWarning, match="transformers 5.25.0 is newer than what"):
        versions.check("5.25.0")


def test_the_tested_releases_are_those_that_are_installed_for_tests():
    wanted = (ROOT / "python/requirements/transformers.txt").read_text()
    oldest, newest = versions.OLDEST, versions.NEWEST
    assert f">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}\n" in wanted
