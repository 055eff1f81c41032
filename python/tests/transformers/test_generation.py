"""generate: greedy, sampling, parallel samples, beams, prefill in chunks."""

import pytest
import torch
import zoo
from compare import assert_same_greedy
from running import CACHE, generate, generate_with_logits, ours


@pytest.mark.parametrize("name", zoo.EVERY)
def test_greedy(name, new_cache):
    ids = zoo.tokens(100)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=40)
    found = generate(ours(name), ids, new_cache(ours(name)), max_new_tokens=40)
    assert_same_greedy(found, stock, least=20)


@pytest.mark.parametrize("name", zoo.KINDS)
def test_the_older_name_of_the_argument(name, new_cache):
    ids = zoo.tokens(100)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=10)
    cache = {"past_key_values": new_cache(ours(name))}
    assert_same_greedy(generate(ours(name), ids, max_new_tokens=10, **cache), stock, least=5)


@pytest.mark.parametrize("size", [1, 17, 64, 99])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_prefill_in_chunks(name, size, new_cache):
    ids = zoo.tokens(150)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=8)
    cache = new_cache(ours(name))
    found = generate(ours(name), ids, cache, max_new_tokens=8, prefill_chunk_size=size)
    assert_same_greedy(found, stock, least=4)


@pytest.mark.parametrize("name", zoo.KINDS)
def test_sampling_with_a_seed(name, new_cache):
    ids = zoo.tokens(80)
    settings = {"do_sample": True, "top_k": 0, "temperature": 0.9, "max_new_tokens": 24}
    torch.manual_seed(11)
    stock = generate(zoo.stock(name), ids, **settings)
    torch.manual_seed(11)
    found = generate(ours(name), ids, new_cache(ours(name)), **settings)
    assert found.tolist() == stock.tolist()


@pytest.mark.parametrize("name", zoo.KINDS)
def test_parallel_samples(name, new_cache):
    ids, mask = zoo.tokens(80, 131), zoo.mask_of(80, 131)
    settings = {"do_sample": True, "top_k": 0, "num_return_sequences": 3, "max_new_tokens": 16}
    torch.manual_seed(12)
    stock = generate(zoo.stock(name), ids, attention_mask=mask, **settings)
    torch.manual_seed(12)
    cache = new_cache(ours(name))
    found = generate(ours(name), ids, cache, attention_mask=mask, **settings)
    assert len({tuple(row) for row in stock.tolist()}) == 6
    assert found.tolist() == stock.tolist()


@pytest.mark.parametrize("lengths", [(100,), (70, 129)])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_beams(name, lengths, new_cache):
    settings = {
        "attention_mask": zoo.mask_of(*lengths),
        "num_beams": 3,
        "num_return_sequences": 2,
        "max_new_tokens": 20,
        "output_scores": True,
    }
    ids = zoo.tokens(*lengths)
    stock = generate_with_logits(zoo.stock(name), ids, **settings)
    found = generate_with_logits(ours(name), ids, new_cache(ours(name)), **settings)
    assert found.sequences.tolist() == stock.sequences.tolist()
    assert torch.equal(found.beam_indices, stock.beam_indices)
    torch.testing.assert_close(found.sequences_scores, stock.sequences_scores, rtol=1e-4, atol=0)
    assert changes_of_beam(stock.beam_indices) > 0, "no beam was ever left for another one"


def changes_of_beam(indices: torch.Tensor) -> int:
    """How often a hypothesis continued another beam than its own place."""
    return int((indices[:, 1:] != indices[:, :-1]).sum())


@pytest.mark.parametrize("name", zoo.KINDS)
def test_beams_that_end(name, new_cache):
    settings = {
        "num_beams": 3,
        "max_new_tokens": 12,
        "eos_token_id": list(range(2, zoo.VOCABULARY, 7)),
        "length_penalty": 0.5,
        "output_scores": True,
    }
    ids = zoo.tokens(66)
    stock = generate_with_logits(zoo.stock(name), ids, **settings)
    found = generate_with_logits(ours(name), ids, new_cache(ours(name)), **settings)
    assert found.sequences.tolist() == stock.sequences.tolist()
    torch.testing.assert_close(found.sequences_scores, stock.sequences_scores, rtol=1e-4, atol=0)


def test_the_cache_comes_back_from_generate(new_cache):
    cache = new_cache(ours("llama"))
    found = generate_with_logits(ours("llama"), zoo.tokens(10), cache, max_new_tokens=3)
    assert getattr(found, CACHE) is cache
