"""Several calls with one cache: chats, batches whose rows ended apart, forks."""

import pytest
import torch
import zoo
from compare import assert_equal_logits, assert_same_greedy
from running import (
    ComputedTokens,
    generate,
    generate_with_logits,
    logits_of,
    one_by_one,
    ours,
    stock_cache,
)

from emblema import UnsupportedError


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_chat_of_three_turns(name, new_cache):
    """Every turn gives the whole text; only what the cache does not have yet is computed."""
    cache, text = new_cache(ours(name)), zoo.tokens(70)
    for turn, question_tokens in enumerate((1, 40, 64)):
        text = torch.cat([text, zoo.tokens(question_tokens, seed=turn)], dim=1)
        known = cache.get_seq_length()
        with ComputedTokens(ours(name)) as computed:
            found = generate(ours(name), text, cache, max_new_tokens=10)
        assert computed.calls == [(1, text.shape[1] - known)] + 9 * [(1, 1)]
        stock = generate_with_logits(zoo.stock(name), text, max_new_tokens=10)
        assert_same_greedy(found, stock, least=4)
        text = found


def two_turns(model, cache, masked: bool):
    """A batch of two answers to the end, of which the first is short, then asked on.

    masked: the second turn's mask leaves the padding behind the first row's end out, as it should;
    or, as users also do, counts it as text. Returns each turn's result, and the whole mask.
    """
    ids, mask = zoo.tokens(70, 20), zoo.mask_of(70, 20)
    free = generate(zoo.stock(name_of(model)), ids, attention_mask=mask, max_new_tokens=12)
    answers = free[:, ids.shape[1] :].tolist()  # row 0 ends early: with what row 1 does not say
    end = next(token for token in answers[0][2:7] if token not in answers[1])
    first = generate(model, ids, cache, attention_mask=mask, max_new_tokens=12, eos_token_id=end)
    answered = (first[:, ids.shape[1] :] != zoo.PAD).long()
    assert answered.sum(1).tolist()[0] < 8 < answered.sum(1).tolist()[1] == 12
    question = zoo.tokens(9, 9, seed=8)
    if not masked:
        answered = torch.ones_like(answered)
    whole = torch.cat([mask, answered, torch.ones_like(question)], dim=1)
    text = torch.cat([first, question], dim=1)
    second = generate_with_logits(model, text, cache, attention_mask=whole, max_new_tokens=6)
    return first, second, whole


def name_of(model) -> str:
    """The zoo's name of a shared model."""
    return next(name for name in zoo.KINDS if model in (zoo.stock(name), ours(name)))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_batch_whose_rows_ended_apart_goes_on(name, new_cache):
    """Each row goes on as it would alone: padding between its turns is nothing to it."""
    _, found, mask = two_turns(ours(name), new_cache(ours(name)), masked=True)
    for i in range(2):
        text = found.sequences[i, : mask.shape[1]][mask[i].bool()][None]
        stock = generate_with_logits(zoo.stock(name), text, max_new_tokens=6)
        assert found.sequences[i, -6:].tolist() == stock.sequences[0, -6:].tolist()
        assert_equal_logits(torch.stack(found.logits)[:, i], torch.stack(stock.logits)[:, 0])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_padding_behind_an_end_that_is_called_text(name, new_cache):
    stock = two_turns(zoo.stock(name), stock_cache(zoo.stock(name)), masked=False)[1]
    found = two_turns(ours(name), new_cache(ours(name)), masked=False)[1]
    assert found.sequences.tolist() == stock.sequences.tolist()
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_generation_after_plain_calls(name, new_cache):
    cache, ids = new_cache(ours(name)), zoo.tokens(90)
    logits_of(ours(name), ids[:, :50], cache)
    logits_of(ours(name), ids[:, 50:60], cache)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=8)
    assert_same_greedy(generate(ours(name), ids, cache, max_new_tokens=8), stock, least=4)


@pytest.mark.parametrize("name", zoo.KINDS)
def test_drafts_in_a_second_turn(name, new_cache):
    """Assisted decoding gives a filled cache its whole text again (stock's then holds it twice and
    says something else). Emblema says what is wrong; a new cache finds the text and goes on."""
    cache = new_cache(ours(name))
    text = generate(ours(name), zoo.tokens(90), cache, max_new_tokens=6)
    text = torch.cat([text, zoo.tokens(9).repeat(1, 3)], dim=1)
    settings = {"max_new_tokens": 16, "prompt_lookup_num_tokens": 5}
    with pytest.raises(UnsupportedError, match="position_ids of sequence 0 has 0 for token 95"):
        generate(ours(name), text, cache, **settings)
    found = generate(ours(name), text, new_cache(ours(name)), **settings)
    stock = generate_with_logits(zoo.stock(name), text, max_new_tokens=16)
    assert_same_greedy(found, stock, least=10)


@pytest.mark.parametrize("length", [100, 64, 127, 128])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_two_continuations_of_one_past(name, length, new_cache):
    """Token by token in turn, so that each writes while the other one reads."""
    past = zoo.tokens(length)
    cache = new_cache(ours(name))
    logits_of(ours(name), past, cache)
    other = cache.fork()
    ways = [(cache, zoo.tokens(6, seed=31)), (other, zoo.tokens(6, seed=32))]
    found = [[], []]
    for step in range(6):
        for pieces, (way, ids) in zip(found, ways, strict=True):
            pieces.append(logits_of(ours(name), ids[:, step : step + 1], way))
    for pieces, (_, ids) in zip(found, ways, strict=True):
        whole = torch.cat([past, ids], dim=1)
        assert_equal_logits(torch.cat(pieces, dim=1), logits_of(zoo.stock(name), whole)[:, length:])
    other.release()


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_fork_outlives_its_origin(name, new_cache):
    past, next_ids = zoo.tokens(100), zoo.tokens(3, seed=41)
    cache = new_cache(ours(name))
    logits_of(ours(name), past, cache)
    fork = cache.fork()
    cache.release()
    found = logits_of(ours(name), next_ids, fork)
    fork.release()
    whole = torch.cat([past, next_ids], dim=1)
    assert_equal_logits(found, logits_of(zoo.stock(name), whole)[:, 100:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_fork_that_is_rolled_back(name, new_cache):
    past = zoo.tokens(100)
    cache = new_cache(ours(name))
    cache.activate_past_recording()
    logits_of(ours(name), past, cache)
    fork = cache.fork()
    fork.crop(-10)
    new_ids = zoo.tokens(12, seed=42)
    found_fork = one_by_one(ours(name), new_ids, fork, first=10)
    found = logits_of(ours(name), new_ids, cache)
    fork.release()
    shorter = torch.cat([past[:, :-10], new_ids], dim=1)
    assert_equal_logits(found_fork, logits_of(zoo.stock(name), shorter)[:, 90:])
    whole = torch.cat([past, new_ids], dim=1)
    assert_equal_logits(found, logits_of(zoo.stock(name), whole)[:, 100:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_reset_begins_anew(name, new_cache):
    cache = new_cache(ours(name))
    logits_of(ours(name), zoo.tokens(80), cache)
    cache.reset()
    assert cache.get_seq_length() == 0
    ids, mask = zoo.tokens(30, 50, seed=4), zoo.mask_of(30, 50)
    found = generate(ours(name), ids, cache, attention_mask=mask, max_new_tokens=6)
    stock = generate_with_logits(zoo.stock(name), ids, attention_mask=mask, max_new_tokens=6)
    assert_same_greedy(found, stock, least=2)
