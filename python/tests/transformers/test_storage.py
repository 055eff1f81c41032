"""How rows are stored under transformers, whose they are, and weights that change."""

from __future__ import annotations

import pytest
import torch
import zoo
from compare import relative_error
from running import CACHE, generate, logits_of, ours
from transformers import AutoModelForCausalLM

import emblema
from emblema.transformers import EmblemaCache


def test_fp8_latents_of_656_bytes(new_cache):
    """FlashMLA's row of 512 e4m3 with 4 scales and 64 bf16: 656 bytes for each token and layer."""
    config = zoo.ZOO["deepseek-v3"].config(
        kv_lora_rank=512, qk_rope_head_dim=64, rope_parameters={"rope_type": "default"}
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="emblema").eval()
    zoo.fill(model, 0.1)
    ids = zoo.tokens(200)
    cache = new_cache(model, kv_dtype="fp8_ds_mla")
    stored = logits_of(model, ids, cache)
    exact = logits_of(model, ids, new_cache(model))
    assert cache.engine.geometry.growing_bytes_per_token == 656 * config.num_hidden_layers
    # e4m3 keeps 3 bits behind the leading one: each latent is off by at most 1/16 of itself.
    assert 1e-4 < relative_error(stored, exact) < 1 / 16


def test_bf16_rows_of_a_float32_model(new_cache):
    """bfloat16 keeps 7 bits: halves the bytes, and moves each number by at most 2^-8 of itself."""
    model = ours("llama")
    ids = zoo.tokens(100)
    cache, exact = new_cache(model, kv_dtype="bf16"), new_cache(model)
    error = relative_error(logits_of(model, ids, cache), logits_of(model, ids, exact))
    assert 1e-5 < error < 2**-5
    halved = cache.engine.geometry.growing_bytes_per_token * 2
    assert halved == exact.engine.geometry.growing_bytes_per_token


def test_rows_that_attention_does_not_read_are_refused_before_any_call():
    with pytest.raises(emblema.UnsupportedError, match="kv_dtype is int8_per_token_head; allowed"):
        EmblemaCache(ours("llama"), kv_dtype="int8_per_token_head")
    with pytest.raises(emblema.UnsupportedError, match="not defined for separate keys"):
        EmblemaCache(ours("llama"), kv_dtype="fp8_ds_mla")
    with pytest.raises(emblema.EmblemaError, match="kv_lora_rank is 32; allowed: multiples of 128"):
        EmblemaCache(ours("deepseek-v3"), kv_dtype="fp8_ds_mla")


def test_what_is_no_model_is_refused():
    with pytest.raises(emblema.InvalidError, match="model is a str; allowed: a model of transf"):
        EmblemaCache("deepseek-v3")


def test_why_a_prompt_is_found_or_not(new_cache):
    model = ours("llama")
    cache = new_cache(model)
    ids = zoo.tokens(40)
    assert cache.why(ids).hit_tokens == 0
    logits_of(model, ids, cache)
    assert cache.why(ids).hit_tokens == 32  # whole blocks of 16
    whole = new_cache(model)
    logits_of(model, ids[:, :32], whole)
    assert cache.why(ids[:, :32]).hit_tokens == whole.hit_tokens[0] == 32
    assert new_cache(model, tenant="another").why(ids).hit_tokens == 0


def test_the_same_prompt_again_into_the_same_cache_says_what_is_wrong(new_cache):
    model = ours("llama")
    cache = new_cache(model)
    ids = zoo.tokens(20)
    generate(model, ids, cache, max_new_tokens=4)
    with pytest.raises(emblema.UnsupportedError, match="the cache holds 23 tokens, and what foll"):
        generate(model, ids, cache, max_new_tokens=4)
    with pytest.raises(emblema.InvalidError, match="behind the 23 columns that the cache holds"):
        generate(model, ids[:, :5], cache, max_new_tokens=4)
    assert cache.get_seq_length() == 23


def test_a_weight_replaced_within_a_conversation_is_absorbed_anew(new_cache):
    """Latents stay; what is multiplied into queries and results follows the module."""
    model = zoo.build("deepseek-v3", "emblema")
    ids = zoo.tokens(30)
    cache = new_cache(model)
    logits_of(model, ids[:, :20], cache)
    projection = model.model.layers[1].self_attn.kv_b_proj
    with torch.no_grad():
        projection.weight = torch.nn.Parameter(projection.weight * 0.5)
    changed = logits_of(model, ids[:, 20:], cache)
    fresh = logits_of(model, ids, new_cache(model, salt="fresh"))[:, 20:]
    # Layer 1 is the last: its latents are made before its own projection is used.
    assert relative_error(changed, fresh) < 1e-5


def test_logits_to_keep_beside_embeddings(new_cache):
    model = ours("llama")
    ids = zoo.tokens(20)
    embedded = model.get_input_embeddings()(ids).detach()
    with torch.no_grad():
        last = model(
            inputs_embeds=embedded, logits_to_keep=1, use_cache=True, **{CACHE: new_cache(model)}
        ).logits
    assert relative_error(last, logits_of(model, ids)[:, -1:]) < 1e-5
