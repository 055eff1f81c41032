"""Decode, attention and first tokens of two geometries, from an Emblema cache and as transformers
does it itself.

The models have the published widths of attention and random weights; their MLPs are small, so that
attention is what is measured. Both ways run the same module with the same weights: only the cache
and the attention function differ. Caches are filled with random rows, which cost what real ones do.
"""

import argparse
import platform
import sys
from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
)

import emblema
from emblema.bench.timing import interleaved, timed
from emblema.transformers import EmblemaCache

_VOCABULARY = 1024
_SLACK_TOKENS = 256  # tokens decoded while timing
# Stock transformers forms all scores of an MLA prompt at once: 128 heads x 4,096 x 4,096 fp32 are
# 8 GiB, several times over. In chunks it stays within memory.
_STOCK_CHUNK = 512
_POSITIONS = 32_768


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _mla_config(layers: int, heads: int) -> Any:
    """DeepSeek-V3's attention (its config.json): 128 heads, ranks 1536 and 512, widths 128 + 64."""
    make: Any = DeepseekV3Config  # its keywords are the base class's, too
    return make(
        vocab_size=_VOCABULARY,
        hidden_size=7168,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        first_k_dense_replace=layers,
        max_position_embeddings=_POSITIONS,
        attn_implementation="emblema",
        dtype=torch.bfloat16,
    )


def _gqa_config(layers: int) -> Any:
    """Llama-3-8B's attention (its config.json): 32 query heads, 8 of keys and values, width 128."""
    make: Any = LlamaConfig
    return make(
        vocab_size=_VOCABULARY,
        hidden_size=4096,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=_POSITIONS,
        attn_implementation="emblema",
        dtype=torch.bfloat16,
    )


def _made(kind: Any, config: Any) -> Any:
    torch.manual_seed(1)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return kind(config).eval()
    finally:
        torch.set_default_dtype(default)


class _Pair:
    """One model with two filled caches: stock transformers' and Emblema's."""

    def __init__(self, model: Any, tokens: int) -> None:
        self.model = model
        self.tokens = tokens
        self.next_token = torch.full((1, 1), 7)
        self.stock = DynamicCache(config=model.config)
        self.ours = EmblemaCache(model, pool_bytes=_pool_bytes(model, tokens))
        self._fill()

    def _fill(self) -> None:
        generator = torch.Generator().manual_seed(2)
        ids = torch.randint(1, _VOCABULARY, (1, self.tokens), generator=generator)
        self.ours.begin(self.model, ids, None, None, None, None)
        for layer, attention in enumerate(_attentions(self.model)):
            heads, key, value = _row_shape(attention)
            shape = (1, heads, self.tokens)
            keys = torch.randn((*shape, key), generator=generator).to(torch.bfloat16)
            values = torch.randn((*shape, value), generator=generator).to(torch.bfloat16)
            self.ours.update(keys, values, layer)
            self.stock.update(keys, values, layer)
        self.ours.finish()

    def decode(self, ours: bool) -> torch.Tensor:
        """One token through the whole model, taken back afterwards."""
        cache = self.ours if ours else self.stock
        self.model.set_attn_implementation("emblema" if ours else "sdpa")
        logits: torch.Tensor = self.model(self.next_token, cache=cache, use_cache=True).logits
        cache.crop(-1)
        return logits

    def attend(self, ours: bool) -> torch.Tensor:
        """Attention of the first layer alone: one token's queries over what is cached."""
        attention = _attentions(self.model)[0]
        query = self._query(attention)
        heads, key, value = _row_shape(attention)
        new = [torch.ones((1, heads, 1, width), dtype=torch.bfloat16) for width in (key, value)]
        implementation = "emblema" if ours else "sdpa"
        attend = _attention_function(implementation)
        self.model.set_attn_implementation(implementation)
        if ours:
            self.ours.begin(self.model, self.next_token, None, None, None, None)
        cache: Any = self.ours if ours else self.stock
        keys, values = cache.update(*new, 0)
        if hasattr(attention, "expand_kv"):
            keys, values = attention.expand_kv(keys, values)
        result: torch.Tensor
        result, _ = attend(attention, query, keys, values, None, scaling=attention.scaling)
        if ours:
            self.ours.abandon()
        else:
            cache.layers[0].crop(-1)
        return result

    def _query(self, attention: Any) -> torch.Tensor:
        generator = torch.Generator().manual_seed(3)
        config = attention.config
        width = getattr(attention, "qk_head_dim", None) or attention.head_dim
        shape = (1, config.num_attention_heads, 1, width)
        return torch.randn(shape, generator=generator).to(torch.bfloat16)


def _attention_function(name: str) -> Any:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return ALL_ATTENTION_FUNCTIONS[name]


def _attentions(model: Any) -> list[Any]:
    return [layer.self_attn for layer in model.model.layers]


def _row_shape(attention: Any) -> tuple[int, int, int]:
    """Heads, key width and value width of what a layer caches."""
    if hasattr(attention, "expand_kv"):
        return 1, attention.kv_lora_rank, attention.qk_rope_head_dim
    return attention.config.num_key_value_heads, attention.head_dim, attention.head_dim


def _geometry(model: Any) -> emblema.Geometry:
    from emblema.transformers.models import geometry_of

    return geometry_of(model, None)


def _pool_bytes(model: Any, tokens: int) -> int:
    per_token = _geometry(model).growing_bytes_per_token
    return int(per_token * (tokens + _SLACK_TOKENS) * 2)


def _expanded_bytes_per_token(config: Any) -> int:
    """Keys and values of all heads without positions, as MHA of the same value width would hold
    them (what the ratio 56.89 of DeepSeek-V3 is to), or those of a GQA model; bf16."""
    heads: int = config.num_key_value_heads
    width: int = getattr(config, "v_head_dim", None) or config.head_dim
    layers: int = config.num_hidden_layers
    return 2 * 2 * heads * width * layers


def payload_ratio(heads: int) -> float:
    """Bytes of expanded keys and values to those of the latent rows, in the MLA geometry."""
    config = _mla_config(1, heads)
    row: int = 2 * (config.kv_lora_rank + config.qk_rope_head_dim)
    return _expanded_bytes_per_token(config) / row


def _projection_bytes(model: Any) -> int:
    """Weights of one layer's attention."""
    attention = _attentions(model)[0]
    return sum(p.numel() * p.element_size() for p in attention.parameters())


def _decode_case(name: str, model: Any, tokens: int, rounds: int) -> dict[str, Any]:
    _say(f"{name}: {tokens} cached tokens")
    pair = _Pair(model, tokens)
    steps = interleaved(
        {"emblema": lambda: pair.decode(True), "stock": lambda: pair.decode(False)}, rounds
    )
    alone = interleaved(
        {"emblema": lambda: pair.attend(True), "stock": lambda: pair.attend(False)}, rounds
    )
    return {
        "name": f"{name} decode",
        "cached_tokens": tokens,
        "layers": model.config.num_hidden_layers,
        "step_seconds": steps,
        "step_ratio": steps["stock"] / steps["emblema"],
        "attention_seconds": alone,
        "attention_ratio": alone["stock"] / alone["emblema"],
        "difference": _difference(pair.attend(True), pair.attend(False)),
    }


def _difference(ours: torch.Tensor, stock: torch.Tensor) -> float:
    """Largest difference of the two, relative to the largest number of stock's."""
    return float((ours.float() - stock.float()).abs().max() / stock.float().abs().max())


def _first_token_case(name: str, model: Any, tokens: int, rounds: int) -> dict[str, Any]:
    _say(f"{name}: first token of a prompt of {tokens}")
    ids = torch.randint(1, _VOCABULARY, (1, tokens), generator=torch.Generator().manual_seed(4))
    pool = _pool_bytes(model, tokens)

    def request(cache: Any, implementation: str, chunk: int | None = None) -> None:
        model.set_attn_implementation(implementation)
        model.generate(
            ids,
            cache=cache,
            max_new_tokens=1,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            prefill_chunk_size=chunk,
        )

    chunk = _STOCK_CHUNK if hasattr(model.config, "kv_lora_rank") else None
    stock = timed(lambda: request(DynamicCache(config=model.config), "sdpa", chunk))
    model.set_attn_implementation("emblema")
    first = timed(lambda: request(EmblemaCache(model, pool_bytes=pool), "emblema"))
    second = interleaved(
        {"emblema": lambda: request(EmblemaCache(model, pool_bytes=pool), "emblema")}, rounds
    )["emblema"]
    return {
        "name": f"{name} first token",
        "prompt_tokens": tokens,
        "stock_seconds": stock,
        "first_seconds": first,
        "second_seconds": second,
        "first_ratio": first / second,
        "stock_ratio": stock / second,
    }


def _payload_case(name: str, model: Any) -> dict[str, Any]:
    ours = _geometry(model).growing_bytes_per_token
    expanded = _expanded_bytes_per_token(model.config)
    return {
        "name": f"{name} payload",
        "bytes_per_token": int(ours),
        "expanded_bytes_per_token": expanded,
        "ratio": float(expanded / ours),
        "projection_bytes_per_layer": _projection_bytes(model),
    }


@torch.no_grad()
def run(options: argparse.Namespace) -> dict[str, Any]:
    """All cases; seconds are medians of interleaved rounds. InvalidError: lengths past the models'
    positions."""
    longest = _POSITIONS - 3 * _SLACK_TOKENS
    for name, tokens in (*(("lengths", n) for n in options.lengths),
                         ("first-token", options.first_token)):
        if tokens > longest:
            raise emblema.InvalidError(f"{name} is {tokens}; allowed: 1 to {longest}")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    results: list[dict[str, Any]] = []
    makers: dict[str, Callable[[], Any]] = {
        "MLA": lambda: _made(DeepseekV3ForCausalLM, _mla_config(options.layers, options.heads)),
        "GQA": lambda: _made(LlamaForCausalLM, _gqa_config(options.layers)),
    }
    for name, make in makers.items():
        model = make()
        model.set_attn_implementation("emblema")
        results.append(_payload_case(name, model))
        for tokens in options.lengths:
            model.set_attn_implementation("emblema")
            results.append(_decode_case(name, model, tokens, options.rounds))
        model.set_attn_implementation("emblema")
        results.append(_first_token_case(name, model, options.first_token, options.rounds))
    return {
        "schema": 1,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "rounds": options.rounds,
        },
        "results": results,
    }


def in_words(results: dict[str, Any]) -> str:
    """The table for people."""
    machine = results["machine"]
    lines = [
        f"bf16, {machine['threads']} threads, torch {machine['torch']}; medians of "
        f"{machine['rounds']} interleaved rounds",
        "",
        f"{'':28}{'emblema':>12}{'stock':>12}{'ratio':>9}",
    ]
    for one in results["results"]:
        lines += _rows(one)
    return "\n".join(lines)


def _rows(one: dict[str, Any]) -> list[str]:
    def row(what: str, ours: str, stock: str, ratio: float) -> str:
        return f"{what:28}{ours:>12}{stock:>12}{ratio:>8.2f}x"

    def ms(seconds: float) -> str:
        return f"{seconds * 1e3:,.1f} ms"

    name = one["name"]
    if name.endswith("payload"):
        return [
            row(
                f"{name}, bytes a token", f"{one['bytes_per_token']:,}",
                f"{one['expanded_bytes_per_token']:,}", one["ratio"],
            )
        ]
    if name.endswith("decode"):
        step, alone = one["step_seconds"], one["attention_seconds"]
        at = f"{name} at {one['cached_tokens']:,}"
        return [
            row(at, ms(step["emblema"]), ms(step["stock"]), one["step_ratio"]),
            row("  attention of a layer", ms(alone["emblema"]), ms(alone["stock"]),
                one["attention_ratio"]),
        ]
    return [
        row(f"{name}, first request", ms(one["first_seconds"]), ms(one["stock_seconds"]),
            one["stock_seconds"] / one["first_seconds"]),
        row("  the same prompt again", ms(one["second_seconds"]), ms(one["stock_seconds"]),
            one["stock_ratio"]),
    ]
