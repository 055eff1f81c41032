"""Small models with random weights, one for each family and each feature of attention.

Every weight is drawn from a generator that is seeded with the weight's own name, so that a model is
the same wherever and in whatever order it is built. Matrices are wide (`Animal.spread`): queries
prefer few keys strongly, and a feature of attention that is dropped changes logits far beyond any
tolerance of these tests (test_dropped_features.py shows it for each feature).
"""

from __future__ import annotations

import copy
import functools
import zlib
from dataclasses import dataclass, field

import pytest
import torch
import transformers
from transformers import AutoConfig, PreTrainedModel

VOCABULARY = 96  # ids 0..2 are kept for padding, begin and end: see `tokens`
PAD, BEGIN, END = 0, 1, 2

_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "pad_token_id": PAD,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "tie_word_embeddings": False,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 16}
# Widths differ from each other, so that no part can stand in for another one.
_LATENT = {
    **_COMMON,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 24,
    "v_head_dim": 20,
}
# Every expert is chosen for every token: a near tie between two experts decides nothing.
_ALL_EXPERTS = {"n_routed_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_DENSE = {"first_k_dense_replace": 2, **_ALL_EXPERTS, "n_group": 1, "topk_group": 1}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 128,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.5,
    "mscale_all_dim": 0.7,
}


@dataclass(frozen=True)
class Animal:
    """A model of the zoo: its type and configuration in transformers' words.

    spread: the standard deviation of its matrices' entries.
    architecture: its class, where AutoModelForCausalLM does not find it by its type.
    """

    model_type: str
    settings: dict = field(default_factory=dict)
    spread: float = 0.15
    architecture: str | None = None

    def config(self, **changes):
        """Its configuration, with `changes` (also of settings that it does not have yet)."""
        settings = copy.deepcopy({**self.settings, **changes})
        return AutoConfig.for_model(self.model_type, **settings)


_V3 = {**_LATENT, **_DENSE}
_V2 = {**_LATENT, **_DENSE, "topk_method": "greedy"}
_WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
_WINDOWED = {**_GROUPED, "num_hidden_layers": 3, "sliding_window": 24, "layer_types": _WINDOWS}

ZOO = {
    "llama": Animal("llama", _GROUPED),
    "qwen2": Animal("qwen2", {k: v for k, v in _GROUPED.items() if k != "head_dim"}),
    "qwen3": Animal("qwen3", {**_GROUPED, "head_dim": 32}),
    "mistral": Animal("mistral", {**_GROUPED, "sliding_window": None}),
    "mistral-window": Animal("mistral", {**_GROUPED, "sliding_window": 40}),
    "deepseek-v2": Animal("deepseek_v2", _V2),
    "deepseek-v2-lite": Animal(
        "deepseek_v2", {**_V2, "q_lora_rank": None, "rope_parameters": YARN}
    ),
    "deepseek-v3": Animal("deepseek_v3", {**_V3, "rope_parameters": YARN}),
    "deepseek-v3-no-q-lora": Animal("deepseek_v3", {**_V3, "q_lora_rank": None}),
    "deepseek-v3-halves": Animal("deepseek_v3", {**_V3, "rope_interleave": False}),
    "deepseek-v3-experts": Animal(
        "deepseek_v3",
        {**_V3, "first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 4},
    ),
    "glm4-moe-lite": Animal(
        "glm4_moe_lite", {**_LATENT, **_ALL_EXPERTS, "mlp_layer_types": ["dense", "dense"]}
    ),
    "minicpm3": Animal("minicpm3", {**_LATENT, "dim_model_base": 64}),
    "youtu": Animal("youtu", _LATENT),
    "longcat-flash": Animal(
        "longcat_flash",
        {
            **{k: v for k, v in _LATENT.items() if k not in ("num_hidden_layers",)},
            "num_layers": 2,
            "ffn_hidden_size": 96,
            "head_dim": 16,
            "moe_topk": 3,
            "n_routed_experts": 2,
            "zero_expert_num": 1,
            "expert_ffn_hidden_size": 32,
            "routed_scaling_factor": 1.0,
        },
    ),
    "mistral4": Animal(
        "mistral4",
        {**_V3, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.3}},
        architecture="Mistral4ForCausalLM",
    ),
    "gemma3": Animal("gemma3_text", {**_WINDOWED, "query_pre_attn_scalar": 24}),
    "gpt-oss": Animal(
        "gpt_oss",
        {
            **{k: v for k, v in _WINDOWED.items() if k not in ("intermediate_size",)},
            "intermediate_size": 32,
            "num_local_experts": 2,
            "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 8.0,
                "original_max_position_embeddings": 128,
                "truncate": False,
            },
        },
    ),
    "gemma2": Animal(
        "gemma2",
        {**_WINDOWED, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0},
    ),
    "phi3": Animal(
        "phi3", {**{k: v for k, v in _GROUPED.items() if k != "head_dim"}, "sliding_window": 40}
    ),
    "mixtral": Animal("mixtral", {**_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 2}),
    "qwen2-moe": Animal(
        "qwen2_moe",
        {
            **{k: v for k, v in _GROUPED.items() if k != "head_dim"},
            "num_experts": 2,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "qwen3-moe": Animal(
        "qwen3_moe",
        {
            **_GROUPED,
            "num_experts": 2,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
        },
    ),
    "gemma3-images": Animal(
        "gemma3",
        {
            "text_config": {**_WINDOWED, "query_pre_attn_scalar": 24},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
            },
            "mm_tokens_per_image": 4,
            "boi_token_index": 3,
            "eoi_token_index": 4,
            "image_token_index": 5,
        },
        architecture="Gemma3ForConditionalGeneration",
    ),
    "olmo2": Animal("olmo2", {k: v for k, v in _GROUPED.items() if k != "head_dim"}),
}
# One of each kind of attention, for tests that are about sequences and not about families.
KINDS = ("llama", "deepseek-v3", "gemma3", "gpt-oss")
# All of them; those that are a variation of another one only where slow tests run.
EVERY = [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]


def fill(model: PreTrainedModel, spread: float) -> None:
    """Draws every parameter of `model` anew; the same name and shape get the same values.

    Matrices get entries of standard deviation `spread`, biases of a quarter; scales of norms move
    by a quarter from what they were (0 or 1); sinks get a deviation of 2, embeddings of 1.
    """
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in tied:
                continue
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            drawn = torch.randn(parameter.shape, generator=generator)
            if name.endswith("sinks"):
                parameter.copy_(2.0 * drawn)
            elif name.endswith("bias"):
                parameter.copy_(0.25 * drawn)
            elif parameter.ndim == 1:
                parameter.add_(0.25 * drawn)
            elif "embed" in name:
                parameter.copy_(drawn)
            else:
                parameter.copy_(spread * drawn)


def build(name: str, implementation: str, dtype=torch.float32, **changes) -> PreTrainedModel:
    """A new model of the zoo's animal `name`, in evaluation mode.

    implementation: "eager", which is stock transformers' attention as it is written on paper, and
        the only one of them that knows sinks and soft caps; or "emblema".
    dtype: weights are drawn in float32, then rounded to it; so two dtypes are one model.
    changes: settings to differ in, see Animal.config.
    """
    animal = ZOO[name]
    architecture = getattr(transformers, animal.architecture or "AutoModelForCausalLM")
    create = getattr(architecture, "from_config", None) or architecture._from_config
    model = create(
        animal.config(**changes), attn_implementation=implementation, dtype=torch.float32
    )
    fill(model, animal.spread)
    model.generation_config.eos_token_id = None  # a call says itself when it wants an end
    return model.to(dtype).eval()


@functools.cache
def stock(name: str, dtype=torch.float32) -> PreTrainedModel:
    """The stock model `name`; shared between tests, so never changed by one."""
    return build(name, "eager", dtype)


def tokens(*lengths: int, seed: int = 0) -> torch.Tensor:
    """Random prompts of `lengths` tokens each, as [prompts][longest], padded on the left."""
    generator = torch.Generator().manual_seed(1000 * seed + sum(lengths))
    longest = max(lengths)
    rows = torch.full((len(lengths), longest), PAD)
    for row, length in zip(rows, lengths, strict=True):
        row[longest - length :] = torch.randint(3, VOCABULARY, (length,), generator=generator)
    return rows


def mask_of(*lengths: int) -> torch.Tensor:
    """The attention mask of `tokens(*lengths)`: 1 where a token is, 0 where padding is."""
    longest = max(lengths)
    rows = [[0] * (longest - length) + [1] * length for length in lengths]
    return torch.tensor(rows)
