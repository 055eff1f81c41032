"""Random operations against a model of one line per sequence: which tokens it has."""

import random

import numpy as np
from core_models import rows_of, run, tiny

import emblema

STEPS = 1500


class Walk:
    """An engine, its sequences, and the tokens that each of them should hold."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.engine = emblema.Engine(tiny(), "512KiB", step_tokens=64)  # 64 blocks: it evicts
        self.held = []  # [sequence, ids]
        self.refused = 0

    def ids(self, count):
        """Few different beginnings, so that prompts meet."""
        return [self.random.randrange(2) for _ in range(count)]

    def pick(self):
        return self.random.choice(self.held) if self.held else None

    def start(self):
        prompt = [self.random.randrange(2)] * 16 + self.ids(self.random.randrange(1, 40))
        sequence = self.engine.start(prompt)
        hit = sequence.hit_tokens
        assert hit % 16 == 0 and hit < len(prompt)
        self.held.append([sequence, prompt[:hit]])
        self.extend(self.held[-1], prompt[hit:])

    def extend(self, one, ids):
        sequence, past = one
        try:
            run(self.engine, sequence, ids, past=past)
            one[1] = past + ids
        except emblema.OutOfBlocksError:
            self.refused += 1
            sequence.truncate(len(past))

    def grow(self):
        if one := self.pick():
            self.extend(one, self.ids(self.random.randrange(1, 20)))

    def fork(self):
        if one := self.pick():
            self.held.append([one[0].fork(), list(one[1])])

    def truncate(self):
        if one := self.pick():
            tokens = self.random.randrange(len(one[1]) + 1)
            assert one[0].truncate(tokens) == (tokens, 0)
            one[1] = one[1][:tokens]

    def release(self):
        if self.held:
            self.held.pop(self.random.randrange(len(self.held)))[0].release()

    def cancel(self):
        if one := self.pick():
            try:
                one[0].reserve(self.random.randrange(30))
            except emblema.OutOfBlocksError:
                self.refused += 1
            one[0].cancel()

    def evict(self):
        self.engine.evict_idle()

    def check(self):
        if not (one := self.pick()):
            return
        sequence, ids = one
        assert (sequence.tokens, sequence.reserved_tokens) == (len(ids), 0)
        if ids:
            position = self.random.randrange(len(ids))
            wanted = rows_of(self.engine.geometry.layers[1], ids[:position + 1])[position]
            assert np.array_equal(sequence.row(1, position), wanted)

    def step(self):
        what = self.random.choices(
            [self.start, self.grow, self.fork, self.truncate, self.release, self.cancel,
             self.check, self.evict],
            [6, 6, 3, 3, 5, 2, 6, 0.3])[0]
        what()


def test_random_operations_keep_every_row_and_every_count():
    walk = Walk(seed=20261130)
    for _ in range(STEPS):
        walk.step()
    assert walk.refused > 0, "the pool was never full: the walk proves little"
    stats = walk.engine.stats().blocks
    assert min(stats.prefix_hits, stats.evicted_for_memory, stats.copied_blocks) > 0
    walk.engine.check_invariants()
    for sequence, ids in walk.held:
        layer = walk.engine.geometry.layers[0]
        rows = [sequence.row(0, position) for position in range(len(ids))]
        assert np.array_equal(np.array(rows).reshape(len(ids), 64), rows_of(layer, ids))
        sequence.release()
    walk.engine.evict_idle()
    counts = walk.engine.counts()
    assert (counts.free, counts.holds) == (counts.capacity, 0)
