"""Runs of models as users write them, with stock transformers beside Emblema.

transformers calls a model's cache `cache`; before it was `past_key_values`. Only this file knows.
"""

from __future__ import annotations

import functools
import inspect
import itertools

import torch
import zoo
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel

CACHE = (
    "cache"
    if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters
    else "past_key_values"
)


@functools.cache
def ours(name: str, dtype=torch.float32) -> PreTrainedModel:
    """The zoo's model `name` with Emblema's attention; shared, so never changed by a test."""
    return zoo.build(name, "emblema", dtype)


@torch.no_grad()
def logits_of(model: PreTrainedModel, ids: torch.Tensor, cache=None, **arguments) -> torch.Tensor:
    """Logits [rows][tokens][vocabulary] of one call of the model."""
    if cache is None:
        return model(ids, use_cache=False, **arguments).logits
    return model(ids, **{CACHE: cache}, use_cache=True, **arguments).logits


def in_pieces(model: PreTrainedModel, ids: torch.Tensor, cache, *cuts: int) -> torch.Tensor:
    """Logits of all tokens, from one call for each piece between `cuts` (of the sequence)."""
    edges = [0, *cuts, ids.shape[1]]
    pieces = [ids[:, begin:end] for begin, end in itertools.pairwise(edges)]
    return torch.cat([logits_of(model, piece, cache) for piece in pieces], dim=1)


def one_by_one(model: PreTrainedModel, ids: torch.Tensor, cache, first: int) -> torch.Tensor:
    """Logits of all tokens: the first `first` in one call, then each alone."""
    return in_pieces(model, ids, cache, *range(first, ids.shape[1]))


@torch.no_grad()
def generate(model: PreTrainedModel, ids: torch.Tensor, cache=None, **arguments):
    """What model.generate returns, greedy unless `arguments` say otherwise.

    Every id is a token where no attention_mask is given: random models do say the padding's id,
    and generate would take it for padding in the next turn.
    """
    arguments = {"do_sample": False, "pad_token_id": zoo.PAD, **arguments}
    if ids is not None:
        arguments.setdefault("attention_mask", torch.ones_like(ids))
    if cache is not None:
        arguments[CACHE] = cache
    return model.generate(ids, **arguments)


def generate_with_logits(model: PreTrainedModel, ids: torch.Tensor, cache=None, **arguments):
    """The same, as an object with sequences, logits and scores."""
    return generate(
        model, ids, cache, return_dict_in_generate=True, output_logits=True, **arguments
    )


def stock_cache(model: PreTrainedModel) -> DynamicCache:
    """The cache that generate makes for a stock model."""
    return DynamicCache(config=model.config)


class ComputedTokens:
    """Counts the tokens that a model computes: rows times width of its first layer's input.

    Used as a context manager around calls of the model.
    """

    def __init__(self, model: PreTrainedModel):
        self._layer = model.model.layers[0]
        self.calls: list[tuple[int, int]] = []  # of each call: rows, width

    def __enter__(self) -> ComputedTokens:
        self._hook = self._layer.register_forward_pre_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, *_) -> None:
        self._hook.remove()

    def _count(self, _, positional, named) -> None:
        hidden = positional[0] if positional else named["hidden_states"]
        self.calls.append(tuple(hidden.shape[:2]))
