"""What tells that a weight is no longer what it was."""

import itertools
from collections.abc import Hashable, MutableMapping

import torch
from torch.utils.weak import WeakIdKeyDictionary

_SAMPLED = 64
_serials: MutableMapping[torch.Tensor, int] = WeakIdKeyDictionary()
_counter = itertools.count()


def write_count(weight: torch.Tensor) -> Hashable:
    """A value that changes when autograd sees `weight` written, or another tensor is in its place.

    An address alone does not tell: memory of a weight that is gone is given to the next one.
    """
    serial = _serials.get(weight)
    if serial is None:
        serial = _serials[weight] = next(_counter)
    return serial, weight.data_ptr(), 0 if weight.is_inference() else weight._version


def state_of(weight: torch.Tensor) -> bytes:
    """The same, and a look at the numbers: a write that is not counted (through `weight.data`) is
    seen where it changes one of 64 entries that are spread over the weight, as any scaling,
    training or merging does."""
    entries = weight.detach().reshape(-1)
    step = max(entries.numel() // _SAMPLED, 1)
    sample = entries[::step].to("cpu", torch.float32)
    return repr(write_count(weight)).encode() + sample.numpy().tobytes()
