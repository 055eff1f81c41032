"""MLA from latents: the up-projections go into the query and the result, never into the cache.

    score  = q_content . (W_UK c) + q_rope . k_rope  =  (W_UK^T q_content) . c + q_rope . k_rope
    result = sum p (W_UV c)                          =  W_UV (sum p c)

(DeepSeek-V2, arXiv 2405.04434, section 2.1.2.) transformers keeps both in `kv_b_proj`.
"""

import types
import weakref
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any

import torch
from torch import nn

import emblema
from emblema.transformers.weights import state_of, write_count


class UpProjections:
    """W_UK and W_UV of one attention module, laid out for products per head.

    Made once, and again when the module's weight was written or replaced.
    """

    def __init__(self, module: Any) -> None:
        self._module: Callable[[], Any] = weakref.ref(module)
        self._made_from: Hashable = None
        self._seen = b""
        self.content_dim: int = module.qk_nope_head_dim
        self.value_dim: int = module.v_head_dim
        self.latent_dim: int = module.kv_lora_rank
        self._key_up: torch.Tensor
        self._value_up: torch.Tensor

    def _weight(self) -> torch.Tensor:
        module = self._module()
        check_projection(module)
        weight: torch.Tensor = module.kv_b_proj.weight
        return weight

    def _split(self) -> tuple[torch.Tensor, torch.Tensor]:
        weight = self._weight().detach()
        per_head = weight.view(-1, self.content_dim + self.value_dim, self.latent_dim)
        return per_head[:, : self.content_dim], per_head[:, self.content_dim :]

    def look(self) -> None:
        """Looks for writes that no count shows; when sequences begin."""
        seen = state_of(self._weight())
        if seen != self._seen:
            self._made_from = None
        self._seen = seen

    def _refresh(self) -> None:
        now = write_count(self._weight())
        if now == self._made_from:
            return
        key_up, value_up = self._split()
        self._key_up = key_up.contiguous()
        self._value_up = value_up.transpose(1, 2).contiguous()
        self._made_from = now

    def absorb(self, query: torch.Tensor) -> torch.Tensor:
        """[b][heads][n][content + rope] -> [b][heads][n][latent + rope]."""
        self._refresh()
        content, rope = query[..., : self.content_dim], query[..., self.content_dim :]
        return torch.cat((torch.matmul(content, self._key_up), rope), dim=-1)

    def expand(self, result: torch.Tensor) -> torch.Tensor:
        """[b][heads][n][latent] -> [b][heads][n][value]."""
        self._refresh()
        return torch.matmul(result, self._value_up)

    def in_floats(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W_UK [heads][content][latent] and W_UV [heads][value][latent] in float32, for prefill in
        the expanded form. Made for the call: long prefills amortise it, memory would not."""
        key_up, value_up = self._split()
        return key_up.float().contiguous(), value_up.float().contiguous()


_up_projections: MutableMapping[Any, UpProjections] = weakref.WeakKeyDictionary()


def up_projections_of(module: Any) -> UpProjections:
    """Those of a module; caches of one model share them."""
    if module not in _up_projections:
        _up_projections[module] = UpProjections(module)
    return _up_projections[module]


def is_latent(module: Any) -> bool:
    """Whether an attention module keeps latents (and so expands them at each step)."""
    return hasattr(module, "expand_kv")


def _pass_latents(self: Any, latent: torch.Tensor, rope: torch.Tensor) -> Any:
    """In the place of `expand_kv`: what an Emblema cache handed out goes on as it is."""
    if hasattr(latent, "emblema_step"):
        return latent, rope
    return type(self).expand_kv(self, latent, rope)


_pass_latents.__name__ = "expand_kv"  # by which pickle finds the class's own again


def check_projection(module: Any) -> None:
    """UnsupportedError unless the weight of kv_b_proj is all that it does."""
    projection: Any = getattr(module, "kv_b_proj", None)
    what = type(projection).__name__
    if type(projection) is nn.Linear:
        if projection.bias is not None:
            what += " with a bias"
        elif projection._forward_hooks or projection._forward_pre_hooks:
            what += " with a hook"
        else:
            return
    raise emblema.UnsupportedError(
        f"{type(module).__name__}: kv_b_proj of layer {module.layer_idx} is {what}; allowed: "
        "torch.nn.Linear without bias or hooks, whose weight is absorbed"
    )


def bypass_expansion(module: Any) -> None:
    """Lets latents from an Emblema cache reach the attention function unexpanded."""
    check_projection(module)
    module.expand_kv = types.MethodType(_pass_latents, module)
