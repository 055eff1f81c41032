"""One forward pass over an EmblemaCache: from the first layer's update to the last's attention."""

from contextvars import ContextVar, Token
from typing import Any

import torch

import emblema
from emblema import _core
from emblema.transformers.latent import UpProjections, is_latent

_current: ContextVar["RunningStep | None"] = ContextVar("emblema_step", default=None)


def current() -> "RunningStep | None":
    """The step of the forward that runs in this context, or None."""
    return _current.get()


class _NoBackward(torch.autograd.Function):
    """Lets a result through; whoever asks for its gradient is told that there is none."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise emblema.UnsupportedError(
            "gradient of attention from an EmblemaCache; allowed: inference (torch.no_grad())"
        )


class RunningStep:
    """Stores each layer's new rows and answers its queries. Lives for one forward."""

    def __init__(
        self,
        core: _core.Step,
        value_widths: list[int],
        up_projections: dict[int, UpProjections],
        configs: list[Any],
    ) -> None:
        self._core = core
        self._value_widths = value_widths
        self._up_projections = up_projections
        self._configs = configs
        self._attended: set[int] = set()

    def is_of(self, config: Any) -> bool:
        """Whether a config is that of the model whose forward this is."""
        return any(config is one for one in self._configs)

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores the new tokens' rows. Gives the same tensors back, marked as stored here."""
        key, value = key.detach(), value.detach()
        self._core.write(layer, key, value)
        key.emblema_step = self  # type: ignore[attr-defined]
        return key, value

    def attend(
        self,
        module: Any,
        query: torch.Tensor,
        *,
        scale: float,
        softcap: float,
        window: int | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """query [batch][heads][columns][width] -> [batch][columns][heads][value width]."""
        layer = module.layer_idx
        self._attended.add(layer)
        how = {
            "scale": scale,
            "softcap": softcap,
            "window": window or 0,
            "sinks": None if sinks is None else sinks.detach().float().contiguous(),
        }
        asked = query.detach()
        if is_latent(module):
            result = self._attend_latents(layer, asked, how)
        else:
            result = self._attend_into(layer, asked, self._value_widths[layer], how)
        if not query.requires_grad:
            return result
        guarded: torch.Tensor = _NoBackward.apply(result, query)  # type: ignore[no-untyped-call]
        return guarded

    def _attend_into(
        self, layer: int, query: torch.Tensor, width: int, how: dict[str, Any]
    ) -> torch.Tensor:
        batch, heads, columns, _ = query.shape
        out = query.new_empty((batch, columns, heads, width))
        self._core.attend(layer, query, out.transpose(1, 2), **how)
        return out

    def _attend_latents(
        self, layer: int, query: torch.Tensor, how: dict[str, Any]
    ) -> torch.Tensor:
        up = self._up_projections[layer]
        if self._core.prefers_absorbed(layer, up.content_dim, up.value_dim):
            out = self._attend_into(layer, up.absorb(query), up.latent_dim, how)
            return up.expand(out.transpose(1, 2)).transpose(1, 2)
        key_up, value_up = up.in_floats()
        return self._attend_into(
            layer, query, up.value_dim, {**how, "key_up": key_up, "value_up": value_up}
        )

    def check_complete(self, layers: int) -> None:
        """UnsupportedError unless every layer asked, too."""
        missing = sorted(set(range(layers)) - self._attended)
        if missing:
            raise emblema.UnsupportedError(
                f"layers {missing} stored rows and did not attend through attention 'emblema'"
            )


def enter(step: RunningStep) -> Token["RunningStep | None"]:
    """Makes a step the current one; leave() with the token ends that."""
    return _current.set(step)


def leave(token: Token["RunningStep | None"]) -> None:
    """Ends what enter() began."""
    _current.reset(token)
