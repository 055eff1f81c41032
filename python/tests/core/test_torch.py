"""Torch tensors on the CPU go in and come out without a copy."""

import numpy as np
import pytest
from core_models import prompted, tiny
from core_reference import bfloat16

import emblema

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_results_are_of_the_kind_of_the_queries():
    engine = emblema.Engine(tiny(), "1MiB")
    sequence = prompted(engine, list(range(30)))
    q = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(1))
    out, lse = emblema.decode_attention(sequence, 0, q)
    assert isinstance(out, torch.Tensor) and isinstance(lse, torch.Tensor)
    assert (out.shape, lse.shape, out.dtype) == ((3, 4, 16), (3, 4), torch.float32)
    plain, plain_lse = emblema.decode_attention(sequence, 0, q.numpy())
    assert isinstance(plain, np.ndarray)
    assert np.array_equal(out.numpy(), plain) and np.array_equal(lse.numpy(), plain_lse)
    given = torch.empty(3, 4, 16)
    assert emblema.decode_attention(sequence, 0, q, out=given)[0] is given
    assert torch.equal(given, out)


def test_a_bf16_chunk_is_a_bfloat16_tensor_over_the_block():
    engine = emblema.Engine(tiny("bf16"), "1MiB")
    sequence = engine.start([])
    sequence.reserve(4)
    rows = sequence.rows(0)
    tensor = torch.from_dlpack(rows.tensor())
    assert (tensor.dtype, tensor.shape) == (torch.bfloat16, (4, 64))
    tensor[1, 2] = 1.5
    assert rows[0][1, 2] == 0x3FC0  # 1.5 in bfloat16
    assert tensor.data_ptr() == torch.from_dlpack(rows.tensor()).data_ptr()


def test_a_tensor_keeps_the_memory():
    engine = emblema.Engine(tiny("bf16"), "1MiB")
    sequence = engine.start([])
    sequence.reserve(16)
    tensor = torch.from_dlpack(sequence.rows(0).tensor())
    tensor[:] = 2
    del sequence
    assert engine.counts().open == 1
    del engine
    assert tensor.sum() == 2 * 16 * 64
    del tensor


def test_bfloat16_and_strided_tensors_are_written():
    engine = emblema.Engine(tiny("bf16"), "1MiB")
    sequence = engine.start([])
    sequence.reserve(20)
    generator = torch.Generator().manual_seed(2)
    keys = torch.randn(1, 2, 20, 16, generator=generator)[0].transpose(0, 1)
    values = torch.randn(20, 2, 16, generator=generator, dtype=torch.float32).bfloat16()
    sequence.rows(0).write(keys, values)
    sequence.commit(range(20))
    for position in (0, 19):
        row = (sequence.row(0, position).astype(np.uint32) << 16).view(np.float32)
        assert np.array_equal(row[:32].reshape(2, 16), bfloat16(keys[position].numpy()))
        assert np.array_equal(row[32:].reshape(2, 16), values[position].float().numpy())


def test_token_ids_may_be_a_tensor():
    engine = emblema.Engine(tiny(), "1MiB")
    prompted(engine, list(range(40))).release()
    assert engine.start(torch.arange(40)).hit_tokens == 32
    assert engine.start(torch.arange(40, dtype=torch.int32)).hit_tokens == 32
    with pytest.raises(emblema.InvalidError, match=r"tokens\[2\] is -1; allowed: integers from 0"):
        engine.start(torch.tensor([0, 1, -1]))


@pytest.mark.parametrize(("q", "message"), [
    (torch.zeros(1, 4, 16, dtype=torch.bfloat16), "q is an array of bfloat16; allowed: float32"),
    (torch.zeros(1, 4, 16, requires_grad=True),
     "q is a tensor that requires a gradient; allowed: one that does not, such as detach() "
     "gives"),
    (torch.zeros(4, 1, 16).transpose(0, 1).expand(2, 4, 16),
     "q is not contiguous; allowed: C order, such as numpy.ascontiguousarray gives")])
def test_what_cannot_be_read_in_place_is_refused(q, message):
    engine = emblema.Engine(tiny(), "1MiB")
    sequence = prompted(engine, list(range(30)))
    with pytest.raises(emblema.InvalidError) as caught:
        emblema.decode_attention(sequence, 0, q)
    assert str(caught.value) == message
