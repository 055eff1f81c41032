"""Assisted decoding and rollback: drafts that are rejected leave no trace."""

import pytest
import torch
import zoo
from compare import assert_equal_logits, assert_same_greedy
from running import ComputedTokens, generate, generate_with_logits, logits_of, ours

# More than the windows of the zoo, so that a rollback also brings back what a window had left.
DRAFT = 30


def repetitive(length: int) -> torch.Tensor:
    """A prompt that repeats itself, so that looking up the prompt drafts something."""
    phrase = zoo.tokens(9)
    return phrase.repeat(1, length // 9 + 1)[:, :length]


@pytest.mark.parametrize("name", zoo.KINDS)
def test_drafts_of_another_model(name, new_cache):
    """The draft model is the model itself with changed weights: some drafts are right."""
    draft_model = zoo.build(name, "eager")
    with torch.no_grad():
        draft_model.lm_head.weight += 0.08 * torch.randn(
            draft_model.lm_head.weight.shape, generator=torch.Generator().manual_seed(4)
        )
    draft_model.generation_config.num_assistant_tokens = 5
    ids = zoo.tokens(100)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=16)
    cache = new_cache(ours(name))
    with ComputedTokens(ours(name)) as computed:
        found = generate(ours(name), ids, cache, max_new_tokens=16, assistant_model=draft_model)
    assert_same_greedy(found, stock, least=12)
    drafted = sum(width - 1 for _, width in computed.calls[1:])
    assert 0 < 16 - len(computed.calls) < drafted, "some drafts are kept and some are rejected"


@pytest.mark.parametrize("name", zoo.KINDS)
def test_drafts_from_the_prompt(name, new_cache):
    ids = repetitive(120)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=30)
    cache = new_cache(ours(name))
    found = generate(ours(name), ids, cache, max_new_tokens=30, prompt_lookup_num_tokens=5)
    assert_same_greedy(found, stock, least=15)


@pytest.mark.parametrize("rejected", [1, 2, 7, DRAFT])
@pytest.mark.parametrize("length", [100, 64, 65])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_rejected_tokens_leave_no_trace(name, length, rejected, new_cache):
    cache = new_cache(ours(name))
    cache.activate_past_recording()
    kept, others = zoo.tokens(length), zoo.tokens(rejected + 2, seed=3)
    logits_of(ours(name), kept, cache)
    logits_of(ours(name), zoo.tokens(rejected, seed=2), cache)
    cache.crop(-rejected)
    assert cache.get_seq_length() == length
    found = logits_of(ours(name), others, cache)
    stock = logits_of(zoo.stock(name), torch.cat([kept, others], dim=1))
    assert_equal_logits(found, stock[:, length:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rollback_again_and_again(name, new_cache):
    """Drafts of 8 tokens, of which 0 to 7 are kept, across two block boundaries."""
    cache = new_cache(ours(name))
    cache.activate_past_recording()
    text = zoo.tokens(50)
    logits_of(ours(name), text, cache)
    for step in range(24):
        draft = zoo.tokens(8, seed=100 + step)
        found = logits_of(ours(name), draft, cache)
        whole = torch.cat([text, draft], dim=1)
        if step % 4 == 3:
            stock = logits_of(zoo.stock(name), whole)
            assert_equal_logits(found, stock[:, text.shape[1] :])
        kept = step % 8
        cache.crop(kept - 8)
        text = torch.cat([text, draft[:, :kept]], dim=1)
    assert cache.get_seq_length() == text.shape[1] == 50 + 3 * 28


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rollback_in_a_batch_of_unequal_lengths(name, new_cache):
    lengths = (70, 20, 129)
    ids, mask = zoo.tokens(*lengths), zoo.mask_of(*lengths)
    cache = new_cache(ours(name))
    cache.activate_past_recording()
    where = (mask.cumsum(-1) - 1).clamp(min=0)
    logits_of(ours(name), ids, cache, attention_mask=mask, position_ids=where)

    def go_on(new_ids: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([mask, torch.ones_like(new_ids)], dim=1)
        where = (whole.cumsum(-1) - 1)[:, -new_ids.shape[1] :]
        return logits_of(ours(name), new_ids, cache, attention_mask=whole, position_ids=where)

    go_on(zoo.tokens(5, 5, 5, seed=21))
    cache.crop(-5)
    new_ids = zoo.tokens(4, 4, 4, seed=22)
    found = go_on(new_ids)
    for i, length in enumerate(lengths):
        whole = torch.cat([ids[i, -length:], new_ids[i]])[None]
        assert_equal_logits(found[i], logits_of(zoo.stock(name), whole)[0, -4:])


def test_crop_of_nothing_and_of_everything(new_cache):
    cache = new_cache(ours("llama"))
    ids = zoo.tokens(30)
    logits_of(ours("llama"), ids, cache)
    cache.crop(0)
    assert cache.get_seq_length() == 30
    cache.crop(-30)
    assert cache.get_seq_length() == 0
    assert_equal_logits(logits_of(ours("llama"), ids, cache), logits_of(zoo.stock("llama"), ids))
