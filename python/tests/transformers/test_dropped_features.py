"""Each feature of attention matters in the zoo, and Emblema has it.

For each one, stock transformers with the feature dropped is far from stock with it: a hundred times
what the tests allow. So an Emblema that dropped it would fail; and it equals stock with it.
"""

import pytest
import torch
import zoo
from compare import FLOAT32_TOLERANCE, assert_equal_logits, relative_error
from running import logits_of, one_by_one, ours


def attentions(model):
    return [layer.self_attn for layer in model.model.layers]


def with_settings(**changes):
    """Drops a feature by what the configuration says; weights are the same."""
    return lambda name: zoo.build(name, "eager", **changes)


def changed(change):
    """Drops a feature by what `change` does to a stock model."""

    def drop(name):
        model = zoo.build(name, "eager")
        with torch.no_grad():
            change(model)
        return model

    return drop


def plain_scale(model):
    for attention in attentions(model):
        attention.scaling = attention.qk_head_dim**-0.5


def plain_rotation(model):
    model.model.rotary_emb.attention_scaling = 1.0


def no_sinks(model):
    for attention in attentions(model):
        attention.sinks.fill_(-1e9)


def sinks_of_other_heads(model):
    for attention in attentions(model):
        attention.sinks.copy_(attention.sinks.roll(1))


def sinks_of_other_layers(model):
    first, *_, last = attentions(model)
    kept = first.sinks.clone()
    first.sinks.copy_(last.sinks)
    last.sinks.copy_(kept)


def plain_latents(model):
    for layer in model.model.layers:
        for attention in layer.self_attn:
            attention.mla_scale_kv_lora = 1.0


def plain_queries(model):
    for layer in model.model.layers:
        for attention in layer.self_attn:
            attention.mla_scale_q_lora = 1.0


def no_query_norm(model):
    for attention in attentions(model):
        attention.q_a_layernorm = torch.nn.Identity()


def no_latent_norm(model):
    for attention in attentions(model):
        attention.kv_a_layernorm = torch.nn.Identity()


def other_head_order(model):
    """Up-projections whose heads are read in another order."""
    for attention in attentions(model):
        weight = attention.kv_b_proj.weight
        rows = attention.qk_nope_head_dim + attention.v_head_dim
        weight.copy_(weight.view(-1, rows, weight.shape[-1]).roll(1, 0).reshape(weight.shape))


def keys_and_values_swapped(model):
    """Up-projections read as values first, then keys."""
    for attention in attentions(model):
        weight = attention.kv_b_proj.weight
        rows = attention.qk_nope_head_dim + attention.v_head_dim
        heads = weight.view(-1, rows, weight.shape[-1])
        weight.copy_(heads.roll(attention.v_head_dim, 1).reshape(weight.shape))


def other_key_heads(model):
    """Query heads that read the other key head."""
    for attention in attentions(model):
        for projection in (attention.k_proj, attention.v_proj):
            weight = projection.weight
            weight.copy_(weight.view(2, -1, weight.shape[-1]).flip(0).reshape(weight.shape))


YARN = zoo.YARN
PATTERN = {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}
NO_WINDOW = with_settings(sliding_window=4096)
DROPPED = {
    "YaRN": ("deepseek-v3", with_settings(rope_parameters=None)),
    "YaRN's mscale_all_dim": (
        "deepseek-v3",
        with_settings(rope_parameters={**YARN, "mscale_all_dim": 0.0}),
    ),
    "YaRN's mscale": ("deepseek-v3", with_settings(rope_parameters={**YARN, "mscale": 0.7})),
    "YaRN's scale of scores": ("deepseek-v3", changed(plain_scale)),
    "YaRN's scale of the rotation": ("deepseek-v3", changed(plain_rotation)),
    "YaRN's scale of scores in V2": ("deepseek-v2-lite", changed(plain_scale)),
    "YaRN's scale of the rotation in V2": ("deepseek-v2-lite", changed(plain_rotation)),
    "YaRN's scale in gpt-oss": ("gpt-oss", changed(plain_rotation)),
    "interleaved rotation": ("deepseek-v3", with_settings(rope_interleave=False)),
    "rotation of halves": ("deepseek-v3-halves", with_settings(rope_interleave=True)),
    "interleaved rotation in GLM": ("glm4-moe-lite", with_settings(rope_interleave=False)),
    "no low rank of queries": ("deepseek-v3-no-q-lora", with_settings(q_lora_rank=48)),
    "no low rank of queries in V2": ("deepseek-v2-lite", with_settings(q_lora_rank=48)),
    "norm of compressed queries": ("deepseek-v3", changed(no_query_norm)),
    "norm of latents": ("deepseek-v3", changed(no_latent_norm)),
    "order of heads in kv_b_proj": ("deepseek-v3", changed(other_head_order)),
    "keys before values in kv_b_proj": ("deepseek-v3", changed(keys_and_values_swapped)),
    "scale of latents in LongCat": ("longcat-flash", changed(plain_latents)),
    "scale of queries in LongCat": ("longcat-flash", changed(plain_queries)),
    "scale by position in Mistral 4": (
        "mistral4",
        with_settings(rope_parameters={**YARN, "llama_4_scaling_beta": 0.0}),
    ),
    "window of every layer": ("mistral-window", NO_WINDOW),
    "window in Phi-3": ("phi3", NO_WINDOW),
    "window of some layers": ("gemma3", NO_WINDOW),
    "window and soft cap": ("gemma2", NO_WINDOW),
    "window beside sinks": ("gpt-oss", NO_WINDOW),
    "window to the token": ("mistral-window", with_settings(sliding_window=41)),
    "window to the token in gemma": ("gemma3", with_settings(sliding_window=23)),
    "window to the token in gpt-oss": ("gpt-oss", with_settings(sliding_window=25)),
    "which layers have windows": ("gemma3", with_settings(**PATTERN)),
    "which layers have windows in gpt-oss": ("gpt-oss", with_settings(**PATTERN)),
    "sinks": ("gpt-oss", changed(no_sinks)),
    "sinks for each head": ("gpt-oss", changed(sinks_of_other_heads)),
    "sinks for each layer": ("gpt-oss", changed(sinks_of_other_layers)),
    "soft cap": ("gemma2", with_settings(attn_logit_softcapping=None)),
    "size of the soft cap": ("gemma2", with_settings(attn_logit_softcapping=2.2)),
    "scale of gemma": ("gemma3", with_settings(query_pre_attn_scalar=16)),
    "which key head a query reads": ("llama", changed(other_key_heads)),
    "norm of queries and keys": (
        "qwen3",
        changed(
            lambda model: [
                setattr(a, n, torch.nn.Identity())
                for a in attentions(model)
                for n in ("q_norm", "k_norm")
            ]
        ),
    ),
}


@pytest.mark.parametrize("feature", DROPPED)
def test_feature(feature, new_cache):
    name, drop = DROPPED[feature]
    ids = zoo.tokens(200)
    stock = logits_of(zoo.stock(name), ids)
    dropped = logits_of(drop(name), ids)
    assert relative_error(dropped, stock) > 100 * FLOAT32_TOLERANCE, "it does not matter here"
    found = one_by_one(ours(name), ids, new_cache(ours(name)), first=197)
    assert_equal_logits(found, stock)
