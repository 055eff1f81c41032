"""One layer of an EmblemaCache, as transformers asks for it."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin

import emblema


class CacheLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """What transformers asks of one layer. The rows are the cache's; it is not kept alive here."""

    is_compileable = False
    is_croppable = True
    supports_early_init = False

    def __init__(self, cache: Any, index: int, window: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cache: Callable[[], Any] = weakref.ref(cache)
        self._index = index
        self.is_sliding = window is not None
        if window is not None:
            self.sliding_window = window

    def _columns(self) -> int:
        cache = self._cache()
        columns: int = 0 if cache is None else cache.columns
        return columns

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: memory is the engine's."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cache = self._cache()
        if cache is None:
            raise emblema.InvalidError("this layer's EmblemaCache is gone")
        stored: tuple[torch.Tensor, torch.Tensor] = cache.store(
            key_states, value_states, self._index
        )
        return stored

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._columns() + query_length, 0

    def get_seq_length(self) -> int:
        return self._columns()

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # its name before 5.20
