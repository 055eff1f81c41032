"""The attention function "emblema" and its mask function, as transformers calls them.

With an EmblemaCache the function reads the cache's blocks; the keys and values that it is given are
those of the new tokens only, and carry the step that stored them. Without one (no cache, or another
kind) a model loaded with attn_implementation="emblema" computes what it would have computed before:
through sdpa, or eagerly where sdpa lacks a feature of the model.
"""

import sys
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import emblema
from emblema.transformers import steps

# What attention modules may pass on that changes nothing here. Anything else that is set is refused
# by name: it could be a bias, a selection of keys, a feature that is not known.
_HARMLESS = frozenset(
    {
        "cache",
        "cache_position",
        "cu_seq_lens_k",
        "cu_seq_lens_q",
        "is_first_iteration",
        "logits_to_keep",
        "max_length_k",
        "max_length_q",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)


def emblema_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention of the new tokens over everything that their cache holds.

    query [batch][query_heads][columns][key width], rotated -> [batch][columns][query_heads][value
    width], and no attention weights. UnsupportedError, naming it: an argument that is not known.
    """
    step = getattr(key, "emblema_step", None)
    if step is None:
        without: tuple[torch.Tensor, torch.Tensor | None] = _without_cache(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout,
            sliding_window=sliding_window, softcap=softcap, s_aux=s_aux, **kwargs,
        )
        return without
    _check_arguments(module, dropout, kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    out = step.attend(
        module, query, scale=scale, softcap=float(softcap or 0.0), window=sliding_window,
        sinks=s_aux,
    )
    return out, None


def _check_arguments(module: nn.Module, dropout: float, kwargs: dict[str, Any]) -> None:
    name = type(module).__name__
    if dropout != 0.0:
        raise emblema.UnsupportedError(f"{name}: dropout is {dropout}; allowed: 0 (model.eval())")
    if kwargs.get("output_attentions"):
        raise emblema.UnsupportedError(
            f"{name}: output_attentions is True; allowed: False, weights are never formed"
        )
    if kwargs.get("is_causal") is False:
        raise emblema.UnsupportedError(f"{name}: is_causal is False; allowed: causal attention")
    for argument, given in kwargs.items():
        if given is not None and argument not in _HARMLESS and argument != "is_causal":
            raise emblema.UnsupportedError(
                f"{name}: its attention is given '{argument}', which is not known here"
            )


def _needs_eager(config: Any) -> bool:
    """Whether sdpa lacks what the model's attention does."""
    return bool(getattr(config, "attn_logit_softcapping", None)) or config.model_type == "gpt_oss"


def _without_cache(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    if not _needs_eager(module.config):
        kwargs.pop("s_aux", None)
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, *args, **kwargs)
    eager = sys.modules[type(module).__module__].eager_attention_forward
    return eager(module, *args, **kwargs)


def emblema_mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """The mask of a forward: none while a step of an EmblemaCache runs, which knows what each token
    sees; else the one that the fallback needs. UnsupportedError: a mask that is not causal."""
    step = steps.current()
    if step is None or not step.is_of(kwargs["config"]):
        kind = "eager" if _needs_eager(kwargs["config"]) else "sdpa"
        mask: torch.Tensor | None = ALL_MASK_ATTENTION_FUNCTIONS[kind](*args, **kwargs)
        return mask
    if kwargs.get("use_vmap") or _sees_ahead(kwargs.get("mask_function")):
        raise emblema.UnsupportedError(
            f"{kwargs['config'].model_type}: the model adds to its causal mask (tokens of an image "
            "that see each other, or a custom mask function); allowed: causal attention"
        )
    return None


def _sees_ahead(mask_function: Any) -> bool:
    """Whether a mask function lets a token see one behind it, asked of two tokens."""
    if mask_function is None:
        return False
    zero, one = torch.tensor(0), torch.tensor(1)
    try:
        return bool(mask_function(zero, zero, zero, one))
    except IndexError:  # it looks up tokens that are not there: made of more than positions
        return True


def register() -> None:
    """Makes attn_implementation="emblema" known to transformers."""
    AttentionInterface.register("emblema", emblema_attention)
    AttentionMaskInterface.register("emblema", emblema_mask)
