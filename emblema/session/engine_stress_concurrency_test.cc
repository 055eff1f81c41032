// Stress: tenants that say the same words, in a pool that is too small for them all, on threads
// that hand each other forks, while others seal, pin and evict. Every byte that anybody can read is
// compared, and a wrong one is traced to the row that it belongs to. EMBLEMA_TORTURE: a hundred
// times as long.
#include <atomic>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "emblema/session/row_owners_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

struct Handed {
  Tracked tracked;
  std::string tenant;
};

// Where forks change threads; holds a few.
class Exchange {
 public:
  void put(Handed child) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= 3) waiting_.erase(waiting_.begin());
    waiting_.push_back(std::move(child));
  }
  std::optional<Handed> take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return std::nullopt;
    Handed child = std::move(waiting_.back());
    waiting_.pop_back();
    return child;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Handed> waiting_;
};

// What a run came across: a stress that never meets its subject proves nothing.
struct Met {
  std::uint64_t hit_tokens = 0;
  std::uint64_t refusals = 0;
  std::uint64_t adopted = 0;  // forks of another thread that were gone on with
  std::uint64_t segments_found = 0;

  void add(const Met& more) {
    hit_tokens += more.hit_tokens;
    refusals += more.refusals;
    adopted += more.adopted;
    segments_found += more.segments_found;
  }
};

// One thread's requests for one tenant.
class Worker {
 public:
  Worker(Engine* engine, Exchange* exchange, std::string tenant, unsigned seed)
      : engine_(engine), exchange_(exchange), tenant_(std::move(tenant)), random_(seed) {}

  void run(int rounds) {
    for (int round = 0; round < rounds && wrong_.empty(); ++round) {
      one_request();
      if (auto child = exchange_->take()) adopt(*child);
      std::this_thread::yield();
    }
  }
  const std::string& wrong() const { return wrong_; }
  std::uint64_t wrong_word() const { return wrong_word_; }
  const RowOwners& owners() const { return owners_; }
  const Met& met() const { return met_; }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  // What the bytes depend on. Salts change no byte, so that equal bytes meet under different keys.
  std::uint64_t context() const { return identity_word({.tenant = tenant_}); }
  void check(const Tracked& tracked, const std::string& tenant) {
    if (!wrong_.empty()) return;
    wrong_ = tracked.first_wrong_byte();
    if (wrong_.empty()) return;
    wrong_word_ = tracked.wrong_word();
    wrong_ = "sequence of tenant '" + tenant + "', " + wrong_;
  }
  void check(const Tracked& tracked) { check(tracked, tenant_); }

  // Whether it could be done: the pool may be full.
  bool allowed(const Status& status) {
    if (status) return true;
    ++met_.refusals;
    if (status.error().code != ErrorCode::OutOfBlocks && wrong_.empty()) {
      wrong_ = status.error().describe();
    }
    return false;
  }
  bool extend(Tracked& tracked, const std::string& tenant, std::span<const TokenId> ids,
              std::string_view text) {
    owners_.wrote(tenant, text, truth_of(tracked.context(), ids, tracked->tokens()));
    // Chunkings of one prompt that differ in their last bits, sometimes.
    const auto noise = static_cast<std::uint8_t>(below(8) == 0 ? 1 : 0);
    return allowed(tracked.extend(ids, noise));
  }

  // The same few texts for every tenant.
  void one_request() {
    const std::uint64_t text = below(3);
    const std::vector<TokenId> prompt =
        tokens_from(static_cast<TokenId>(text * 1000), 10 + below(90));
    const std::string salt = below(2) == 0 ? "" : "salt";
    auto started = engine_->start({.tokens = prompt, .tenant = tenant_, .salt = salt});
    if (!started) return void(allowed(propagate(started)));
    Tracked sequence(*engine_, std::move(*started), context(), prompt);
    met_.hit_tokens += sequence->hit_tokens();
    check(sequence);
    const auto rest = std::span(prompt).subspan(sequence->tokens());
    if (!extend(sequence, tenant_, rest, "prompt " + std::to_string(text))) return;
    check(sequence);
    if (below(2) == 0) exchange_->put({sequence.fork(), tenant_});
    if (below(2) == 0 && !with_segment(sequence, salt)) return;
    const auto answer = tokens_from(static_cast<TokenId>(8000 + below(2)), 9 + below(20));
    if (!extend(sequence, tenant_, answer, "answer")) return;
    check(sequence);
    if (below(4) == 0) (void)sequence->reserve(20);  // and aborted
  }

  // Goes on with another thread's fork, and lets it go on this one.
  void adopt(Handed& child) {
    check(child.tracked, child.tenant);
    const auto ids = tokens_from(static_cast<TokenId>(7000 + below(2)), 1 + below(20));
    if (!extend(child.tracked, child.tenant, ids, "adopted")) return;
    ++met_.adopted;
    check(child.tracked, child.tenant);
    if (below(3) == 0) exchange_->put(std::move(child));
  }

  bool with_segment(Tracked& sequence, std::string_view salt) {
    const std::vector<TokenId> document = tokens_from(9000, 37);
    auto lookup = engine_->segment({.tokens = document, .tenant = tenant_, .salt = salt});
    if (!lookup) return allowed(propagate(lookup));
    if (lookup->found) {
      ++met_.segments_found;
    } else if (!build(*lookup, document)) {
      return false;
    }
    const std::vector<TokenId> question = tokens_from(9500, 40);
    const auto hit = sequence.attach(*lookup->found, context(), question);
    if (!hit) return allowed(propagate(hit));
    check(sequence);
    return extend(sequence, tenant_, std::span(question).subspan(*hit), "question");
  }

  bool build(SegmentLookup& lookup, std::span<const TokenId> document) {
    Sequence& building = lookup.builder->sequence();
    const auto truth = truth_of(context(), document);
    owners_.wrote(tenant_, "segment", truth);
    const std::uint64_t done = building.tokens();
    if (!allowed(building.reserve(document.size() - done))) return false;
    write_rows(*engine_, building, std::span(truth).subspan(done));
    if (!allowed(building.commit(document.subspan(done)))) return false;
    auto sealed = lookup.builder->seal();
    if (!sealed) return allowed(propagate(sealed));
    lookup.found.emplace(std::move(*sealed));
    return true;
  }

  Engine* engine_;
  Exchange* exchange_;
  std::string tenant_;
  std::mt19937 random_;
  RowOwners owners_;
  Met met_;
  std::string wrong_;
  std::uint64_t wrong_word_ = 0;
};

// Pins what tenants use, evicts what nobody does, looks at the counts.
class Keeper {
 public:
  explicit Keeper(Engine* engine) : engine_(engine) {}
  void step() {
    const std::vector<TokenId> prompt = tokens_from(static_cast<TokenId>(steps_ % 3 * 1000), 64);
    const Pin pin = engine_->pin({.tokens = prompt, .tenant = steps_ % 2 == 0 ? "a" : "b"});
    engine_->evict_idle();
    for (const BlockCounts& counts : counts_of(*engine_)) {
      if (counts.free + counts.open + counts.referenced + counts.idle == counts.capacity) continue;
      if (wrong_.empty()) wrong_ = "classes do not add up: " + in_words(counts);
    }
    ++steps_;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  Engine* engine_;
  std::uint64_t steps_ = 0;
  std::string wrong_;
};

struct PoolSetup {
  std::string name;
  ModelConfig model;
  std::uint64_t blocks;  // of every group: about half of what the threads want at once
  SealMode seal;
  unsigned digest_bits;
};

// As ctest names the case; without it, bytes that change with every run.
void PrintTo(const PoolSetup& setup, std::ostream* out) {
  *out << setup.name;
}

class TenantsInASmallPool : public testing::TestWithParam<PoolSetup> {};

INSTANTIATE_TEST_SUITE_P(
    Setups, TenantsInASmallPool,
    testing::Values(PoolSetup{"OneGroupInline", grouped_model(), 20, SealMode::kInline, 256},
                    PoolSetup{"OneGroupDeferred", grouped_model(), 20, SealMode::kDeferred, 256},
                    PoolSetup{"TwoGroupsInline", two_group_model(), 20, SealMode::kInline, 256},
                    PoolSetup{"TwoGroupsDeferred", two_group_model(), 20, SealMode::kDeferred, 256},
                    PoolSetup{"LatentDeferred", latent_model(), 6, SealMode::kDeferred, 256},
                    PoolSetup{"CollidingInline", grouped_model(), 20, SealMode::kInline, 2},
                    PoolSetup{"CollidingDeferred", two_group_model(), 20, SealMode::kDeferred, 2}),
    [](const auto& made) { return made.param.name; });

TEST_P(TenantsInASmallPool, ReadTheirOwnBytesOnly) {
  const PoolSetup& setup = GetParam();
  Engine engine = open_engine(setup.model, setup.blocks,
                              {.sequence_tokens = 150,
                               .step_tokens = 128,
                               .seal = setup.seal,
                               .digest_bits_for_test = setup.digest_bits});
  const int rounds = std::getenv("EMBLEMA_TORTURE") != nullptr ? 8000 : 80;
  Exchange exchange;
  std::vector<Worker> workers;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    workers.emplace_back(&engine, &exchange, seed % 2 == 0 ? "a" : "b", seed);
  }
  Keeper keeper(&engine);
  std::uint64_t handled = 0;
  std::atomic<bool> done = false;
  std::latch all_there(static_cast<std::ptrdiff_t>(workers.size()) + 2);
  {
    std::jthread sealing([&] {
      all_there.arrive_and_wait();
      while (!done) {
        handled += engine.seal_pending(3);
        std::this_thread::yield();
      }
    });
    std::jthread keeping([&] {
      all_there.arrive_and_wait();
      while (!done) {
        keeper.step();
        std::this_thread::yield();
      }
    });
    {
      std::vector<std::jthread> threads;
      threads.reserve(workers.size());
      for (Worker& worker : workers) {
        threads.emplace_back([&worker, &all_there, rounds] {
          all_there.arrive_and_wait();
          worker.run(rounds);
        });
      }
    }
    done = true;
  }
  exchange.clear();

  std::vector<const RowOwners*> lists;
  for (const Worker& worker : workers) lists.push_back(&worker.owners());
  const auto layers = static_cast<std::uint32_t>(engine.geometry().layers().size());
  Met met;
  for (const Worker& worker : workers) {
    EXPECT_EQ(worker.wrong(), "") << "the row found there belongs to "
                                  << name_owner(lists, worker.wrong_word(), layers);
    met.add(worker.met());
  }
  EXPECT_EQ(keeper.wrong(), "");
  EXPECT_GT(met.refusals, 0u);
  EXPECT_GT(met.adopted, 0u);
  EXPECT_GT(met.segments_found, 0u);
  EXPECT_GT(engine.stats().blocks.evicted_blocks, 0u);
  if (setup.digest_bits == 256) {
    EXPECT_GT(met.hit_tokens, 0u);
  }
  if (setup.seal == SealMode::kDeferred) {
    EXPECT_GT(handled + engine.seal_pending(UINT64_MAX), 0u);
  }
  expect_all_given_back(engine);
}

// The alarm itself: a sequence that is taken for another tenant's reads rows of its own.
TEST(RowOwners, NameWhoseRowWasRead) {
  Engine engine = open_engine(grouped_model(), 20);
  const std::vector<TokenId> prompt = tokens_from(1, 20);
  const std::uint64_t context = identity_word({.tenant = "b"});
  RowOwners owners;
  owners.wrote("b", "prompt 1", truth_of(context, prompt));
  store(engine, {.tokens = prompt, .tenant = "b"});
  auto sequence = engine.start({.tokens = prompt, .tenant = "b"});
  ASSERT_TRUE(sequence);
  ASSERT_EQ(sequence->hit_tokens(), kBlock);
  const Tracked mistaken(engine, std::move(*sequence), identity_word({.tenant = "a"}), prompt);
  EXPECT_EQ(mistaken.first_wrong_byte(), "layer 0 position 0: not the bytes that were stored");
  const RowOwners* const lists[] = {&owners};
  EXPECT_EQ(name_owner(lists, mistaken.wrong_word(), 2),
            "tenant 'b', prompt 1, context " + std::to_string(after_token(context, 1)) +
                ", stored at position 0, layer 0");
  EXPECT_EQ(name_owner(lists, mistaken.wrong_word() + 1, 2), "nobody who is known");
  EXPECT_EQ(name_owner(lists, 0, 2), "nobody: it is empty");
}

}  // namespace
}  // namespace emblema
