"""What happens around a model's forward when it is given an EmblemaCache.

A cache is told keys and values, never tokens; what can be found again is found by tokens. So the
model's forward is wrapped, once: before it the cache sees the tokens, the mask and the positions;
after it the rows are committed, or taken back however it ended. (Hooks of torch do not run after a
KeyboardInterrupt.)
"""

import functools
import types
from typing import Any

import torch

from emblema.transformers.models import Model, refuse

_CACHE_NAMES = ("cache", "past_key_values")
# Arguments with one entry for each token, which are cut where tokens are skipped.
_PER_TOKEN = ("input_ids", "position_ids", "token_type_ids", "mm_token_type_ids")
_IMAGES = ("pixel_values", "pixel_values_videos", "input_features", "mm_encoder_outputs")


def install(model: Model) -> None:
    """Wraps the forward of the model and of the model inside its head; once.

    UnsupportedError: another tool has replaced it (hooks of accelerate, torch.compile).
    """
    for module in {id(m): m for m in (model, model.base_model)}.values():
        kind: Any = type(module)
        wrapped = _wrapped_forward(kind)
        there = module.__dict__.get("forward")
        if getattr(there, "__func__", None) is wrapped:
            continue
        # What pickle makes of a bound method of ours is the class's own.
        if there is not None and getattr(there, "__func__", None) is not kind.forward:
            raise refuse(model, "its forward was replaced; allowed: the class's own")
        module.forward = types.MethodType(wrapped, module)


@functools.cache
def _wrapped_forward(kind: Any) -> Any:
    """The forward of a class of models; with an EmblemaCache, within a step of it."""

    @functools.wraps(kind.forward)
    def forward(self: Model, *args: Any, **kwargs: Any) -> Any:
        cache = _cache_of(kwargs)
        if cache is None or cache.is_running:
            return kind.forward(self, *args, **kwargs)
        return _forward_in_step(kind, cache, self, args, kwargs)

    return forward


def _cache_of(kwargs: dict[str, Any]) -> Any:
    from emblema.transformers.cache import EmblemaCache

    for name in _CACHE_NAMES:
        if isinstance(kwargs.get(name), EmblemaCache):
            return kwargs[name]
    return None


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _forward_in_step(
    kind: Any, cache: Any, module: Model, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if args:
        kwargs = {**kwargs, "input_ids": args[0]}
        if len(args) > 1:
            raise refuse(module, "arguments by position beside input_ids; allowed: by keyword")
    for name in _IMAGES:
        given = kwargs.get(name)
        if given is not None and given != {}:  # generate() says with {} that there are none
            raise refuse(module, f"'{name}' is given; allowed: text, whose tokens say all")
    if kwargs.get("use_cache") is False:
        raise refuse(module, "use_cache is False beside an EmblemaCache; allowed: True")
    skipped = cache.begin(
        module,
        kwargs.get("input_ids"),
        kwargs.get("inputs_embeds"),
        kwargs.get("attention_mask"),
        kwargs.get("position_ids"),
        _tokens_to_keep(kwargs),
    )
    try:
        output = kind.forward(module, **(_cut(kwargs, skipped) if skipped else kwargs))
        cache.check_attended()
        cache.finish()
    except BaseException:
        cache.abandon()
        raise
    return output


def _tokens_to_keep(kwargs: dict[str, Any]) -> int | None:
    """How many tokens at the end must be computed whatever is found: None for all.

    generate() asks for the last token's logits only; a plain forward returns those of all tokens.
    """
    keep = kwargs.get("logits_to_keep")
    if not isinstance(keep, int) or keep < 1 or kwargs.get("labels") is not None:
        return None
    if kwargs.get("output_hidden_states") or kwargs.get("input_ids") is None:
        return None
    tokens = kwargs["input_ids"].shape[-1]
    known = {*_PER_TOKEN, "attention_mask"}
    for name, given in kwargs.items():
        is_per_token = isinstance(given, torch.Tensor) and tokens in given.shape[1:]
        if is_per_token and name not in known:
            return None
    return keep


def _cut(kwargs: dict[str, Any], skipped: int) -> dict[str, Any]:
    tokens = kwargs["input_ids"].shape[-1]
    cut = dict(kwargs)
    for name in _PER_TOKEN:
        given = cut.get(name)
        if isinstance(given, torch.Tensor) and given.shape[-1] == tokens:
            cut[name] = given[..., skipped:]
    return cut
