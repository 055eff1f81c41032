"""Who finds what: identities, why(), pins, quotas, counts."""

import hashlib

import pytest
from core_models import prompted, tiny

import emblema

PROMPT = list(range(40))


@pytest.fixture
def engine():
    return emblema.Engine(tiny(), "2MiB")


def digest(text):
    return hashlib.sha256(text.encode()).digest()


@pytest.mark.parametrize("other", [
    {"tenant": "b"}, {"salt": "s"}, {"adapter": digest("adapter")},
    {"extra": [(3, digest("image"))]}])
def test_a_hit_is_of_the_same_identity(engine, other):
    prompted(engine, PROMPT, tenant="a").release()
    assert engine.start(PROMPT, **({"tenant": "a"} | other)).hit_tokens == 0
    assert engine.start(PROMPT, tenant="a").hit_tokens == 32


def test_why_says_what_is_there_and_what_is_not(engine):
    prompted(engine, PROMPT, tenant="a").release()
    report = engine.why([*PROMPT, *range(100, 130)], tenant="a")
    assert (report.asked_tokens, report.hit_tokens, report.boundary_tokens) == (70, 32, 16)
    assert [answer.verdict for answer in report.blocks] == [
        "hit", "hit", "never stored", "never stored", "not whole"]
    assert [(one.first_token, one.tokens) for one in report.blocks] == [
        (0, 16), (16, 16), (32, 16), (48, 16), (64, 6)]
    assert str(report).split("\n") == report.describe()
    assert "32 of 70 tokens are served (prefix hit), in blocks of 16" in str(report)


def test_why_names_evictions_identities_and_tenants(engine):
    prompted(engine, PROMPT, tenant="a", salt="s").release()
    [first, *_] = engine.why(PROMPT, tenant="a").blocks
    assert (first.verdict, first.fields) == ("identity differs", ["salt"])
    prompted(engine, PROMPT, tenant="a").release()
    assert engine.why(PROMPT, tenant="b").blocks[0].verdict == "another tenant"
    engine.evict_idle()
    [first, *_] = engine.why(PROMPT, tenant="a").blocks
    assert first.verdict == "evicted" and first.reason is not None


def test_a_pin_keeps_a_prefix(engine):
    prompted(engine, PROMPT).release()
    with engine.pin(PROMPT) as pin:
        assert pin.tokens == 32
        engine.evict_idle()
        assert engine.start(PROMPT).hit_tokens == 32
    assert pin.tokens == 0
    engine.evict_idle()
    assert engine.start(PROMPT).hit_tokens == 0


def test_equal_rows_of_two_tenants_are_shared_where_that_is_asked_for():
    engine = emblema.Engine(tiny(), "2MiB", share_content_across_tenants=True)
    a = prompted(engine, PROMPT, tenant="a")
    b = prompted(engine, PROMPT, tenant="b")
    assert b.hit_tokens == 0
    assert a.held_blocks()[:2] == b.held_blocks()[:2]
    assert engine.stats().blocks.content_shared_blocks == 2


def test_deferred_sealing_shares_when_it_is_told_to():
    engine = emblema.Engine(tiny(), "2MiB", seal="deferred", share_content_across_tenants=True)
    prompted(engine, PROMPT, tenant="a").release()
    prompted(engine, PROMPT, tenant="b").release()
    assert engine.stats().blocks.content_shared_blocks == 0
    assert engine.seal_pending(100) == 4
    assert engine.stats().blocks.content_shared_blocks == 2


def test_a_quota_counts_what_a_tenants_sequences_hold():
    block_bytes = 2 * 16 * 64 * 4  # layers x tokens x numbers x fp32
    engine = emblema.Engine(tiny(), "2MiB", tenant_quota_bytes=3 * block_bytes,
                            tenant_quotas={"big": "1MiB"})
    sequence = prompted(engine, PROMPT, tenant="a")
    usage = engine.usage("a")
    assert (usage.held_bytes, usage.quota_bytes, usage.refusals) == (3 * block_bytes,
                                                                     3 * block_bytes, 0)
    with pytest.raises(emblema.OutOfBlocksError, match="quota"):
        sequence.reserve(10)
    assert engine.usage("a").refusals == 1 and engine.stats().refused_for_quota == 1
    assert engine.usage("big").quota_bytes == 1 << 20


def test_counts_add_up_and_come_back(engine):
    plan = engine.plan
    [group] = plan.groups
    assert group.blocks * group.block_bytes == plan.used_bytes == 2 << 20
    before = engine.counts()
    assert (before.free, before.capacity) == (group.blocks, group.blocks)
    sequence = prompted(engine, PROMPT)
    child = sequence.fork()
    now = engine.counts()
    assert now.free + now.open + now.referenced + now.idle == now.capacity
    assert (now.referenced, now.holds) == (3, 6)
    assert now.logical_bytes == 2 * now.physical_bytes
    engine.check_invariants()
    sequence.release()
    child.release()
    assert engine.counts().idle == 2
    assert engine.evict_idle() == 2
    assert engine.counts().free == before.free
    assert "free=" in repr(engine.counts()) and "prefix_hits=" in repr(engine.stats())


def test_metadata_only_counts_without_bytes():
    engine = emblema.Engine("deepseek-v3", "40GiB", metadata_only=True)
    assert engine.plan.tokens == 611_136  # floor(40 GiB / 4,497,408) blocks of 64 tokens
    sequence = engine.start(range(1000))
    sequence.reserve(1000)
    sequence.commit(range(1000))
    assert engine.counts().holds == 16  # ceil(1000 / 64)
    with pytest.raises(emblema.UnsupportedError, match="metadata-only"):
        sequence.reserve(1)
        sequence.rows(0)
