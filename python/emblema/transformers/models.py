"""Which models run from an Emblema cache, and the engine that each of them gets."""

import hashlib
import os
import weakref
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

import emblema
from emblema.transformers import weights

# A causal language model of transformers. Its attributes (config, dtype, device, the parts of a
# layer) are declared by no class that they have in common.
Model = Any

# Model types whose logits the tests compare with stock transformers'. What their attention does is
# known: which arguments it passes, that keys arrive rotated, that nothing else looks at the cache.
TESTED_MODEL_TYPES = frozenset(
    {
        "deepseek_v2",
        "deepseek_v3",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "glm4_moe_lite",
        "gpt_oss",
        "llama",
        "longcat_flash",
        "minicpm3",
        "mistral",
        "mistral4",
        "mixtral",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "youtu",
    }
)

_KV_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_LONG_STEP = 131_072  # tokens of one forward
_POOL_SHARE = 4  # a pool is a quarter of the machine's memory where the user says nothing


def text_config(model: Model) -> Any:
    """The config of the language part."""
    return model.config.get_text_config(decoder=True)


def name_of(model: Model) -> str:
    """How messages call a model: its class and model type."""
    return f"{type(model).__name__} ({text_config(model).model_type})"


def refuse(model: Model, missing: str) -> emblema.UnsupportedError:
    """The error for a model or a call that the cache does not serve; to be raised."""
    return emblema.UnsupportedError(f"{name_of(model)}: {missing}")


def attention_modules(model: Model, layers: int) -> list[nn.Module]:
    """The attention of each layer, in order. UnsupportedError where that is not one a layer."""
    found: dict[int, nn.Module] = {}
    for module in model.modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int) and hasattr(module, "o_proj") and hasattr(module, "scaling"):
            if index in found:
                raise refuse(model, f"two attention modules call themselves layer {index}")
            found[index] = module
    if sorted(found) != list(range(layers)):
        raise refuse(model, f"attention modules were found for layers {sorted(found)} of {layers}")
    return [found[index] for index in range(layers)]


def check_model(model: Model, untested: bool) -> None:
    """UnsupportedError, naming the model and what is missing, unless the cache can serve it."""
    if not isinstance(model, PreTrainedModel):
        raise emblema.InvalidError(
            f"model is a {type(model).__name__}; allowed: a model of transformers, as "
            "AutoModelForCausalLM.from_pretrained gives it"
        )
    config = text_config(model)
    if getattr(model.config, "is_encoder_decoder", False):
        raise refuse(model, "cross-attention over an encoder's output is not kept in blocks")
    if not untested and config.model_type not in TESTED_MODEL_TYPES:
        raise refuse(
            model,
            "not among the tested model types; allowed: "
            f"{', '.join(sorted(TESTED_MODEL_TYPES))} (untested=True tries it all the same)",
        )
    check_attention(model)
    if model.device.type != "cpu":
        raise refuse(model, f"its weights are on {model.device}; allowed: cpu")
    if model.dtype not in _KV_DTYPES:
        raise refuse(model, f"its dtype is {model.dtype}; allowed: float32, bfloat16, float16")


def check_attention(model: Model) -> None:
    """UnsupportedError unless the model's attention function is "emblema"."""
    found = text_config(model)._attn_implementation
    if found != "emblema":
        raise refuse(
            model,
            f"its attention is '{found}'; allowed: attn_implementation='emblema' at loading, or "
            "model.set_attn_implementation('emblema')",
        )


def geometry_of(model: Model, kv_dtype: str | None) -> emblema.Geometry:
    """The geometry of the model's cache; kv_dtype None: stored as the model computes."""
    config = text_config(model)
    facts = emblema.ModelConfig.from_json(config.to_json_string(use_diff=False), config.model_type)
    geometry = emblema.Geometry(facts, kv_dtype=kv_dtype or _KV_DTYPES[model.dtype])
    for layer in geometry.layers:
        if len(layer.streams) != 1 or layer.streams[0].role not in ("kv", "latent"):
            roles = ", ".join(stream.role for stream in layer.streams) or "nothing"
            raise refuse(
                model,
                f"layer {layer.index} ({layer.kind}) remembers {roles}; allowed: keys and values, "
                "or latents",
            )
    return geometry


def check_rows(model: Model, geometry: emblema.Geometry) -> None:
    """UnsupportedError unless attention reads rows as the geometry stores them."""
    dtype = geometry.kv_dtype
    is_v3 = all((one.key_dim, one.value_dim) == (576, 512) for one in geometry.layers)
    if dtype in _KV_DTYPES.values() or (dtype == "fp8_ds_mla" and is_v3):
        return
    raise refuse(
        model,
        f"kv_dtype is {dtype}; allowed: {', '.join(sorted(_KV_DTYPES.values()))}, and fp8_ds_mla "
        "for latents of 512 + 64",
    )


class _Engines:
    """Engines of one model, by what they were asked for; they live as long as the model."""

    def __init__(self) -> None:
        self.by_options: dict[tuple[Any, ...], emblema.Engine] = {}


_engines: "weakref.WeakKeyDictionary[Model, _Engines]" = weakref.WeakKeyDictionary()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def engine_of(
    model: Model,
    geometry: emblema.Geometry,
    pool_bytes: int | str | None,
    draft_tokens_max: int,
) -> emblema.Engine:
    """The model's engine for these options: the same one each time, so that prefixes are found.

    Opened on first use. The pool's memory is the system's to give as it is touched.
    """
    options = (geometry.fingerprint, pool_bytes, draft_tokens_max)
    shared = _engines.setdefault(model, _Engines()).by_options
    if options not in shared:
        # Longer steps only cost memory where windows keep what a step may still see.
        has_windows = any(layer.window_tokens for layer in geometry.layers)
        positions = getattr(text_config(model), "max_position_embeddings", None) or _LONG_STEP
        step = positions if has_windows else max(positions, _LONG_STEP)
        shared[options] = emblema.Engine(
            geometry,
            pool_bytes if pool_bytes is not None else _memory_bytes() // _POOL_SHARE,
            threads=torch.get_num_threads(),
            step_tokens=step,
            draft_tokens_max=draft_tokens_max,
        )
    return shared[options]


def weights_state(model: Model) -> str:
    """A text that changes when what computes rows does: a weight or a buffer is written, replaced
    or adapted, the model is put to training, numbers are cast on the way. Read at the start of
    sequences, not at each step. (Hooks, and attributes in general, it does not see.)"""
    casts = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    said = [str(casts), str(model.training)]
    for part in model.modules():
        said += _adapter_state(part)
        if hasattr(part, "layer_idx"):
            said.append(str(getattr(part, "scaling", None)))
    digest = hashlib.sha256(repr(said).encode())
    for tensor in (*model.parameters(), *model.buffers()):
        digest.update(weights.state_of(tensor))
    return digest.hexdigest()


def _adapter_state(part: Any) -> tuple[str, ...]:
    """What a layer of an adapter (peft) does at the moment; () of any other module."""
    names = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")
    if not hasattr(part, "active_adapters") or isinstance(part, PreTrainedModel):
        return ()
    return tuple(str(getattr(part, name, None)) for name in names)


def rotates_by_length(model: Model) -> bool:
    """Whether a token's rotation depends on how long its text is (dynamic and long RoPE): then what
    one request stored is not what another computes, and nothing is found between them."""
    return any(kind in ("dynamic", "longrope") for kind in _rope_types(text_config(model)))


def _rope_types(config: Any) -> list[str]:
    waiting = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    found: list[str] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.append(str(one.get("rope_type", one.get("type"))))
            waiting += list(one.values())
    return found
