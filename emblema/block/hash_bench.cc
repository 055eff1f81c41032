#include "emblema/block/hash_bench.h"

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "emblema/block/block_manager.h"
#include "emblema/block/content_index.h"
#include "emblema/contract/check.h"

namespace emblema::bench {
namespace {

constexpr std::uint64_t kBlockTokens = 64;

Result<std::unique_ptr<BlockManager>> open_manager(std::uint64_t blocks) {
  StreamPage page;
  page.role = StreamRole::kLatent;
  page.rows = kBlockTokens;
  page.row_bytes = kHashBenchBlockBytes / kBlockTokens;
  page.page_bytes = kHashBenchBlockBytes;
  BlockLayout group;
  group.group_name = "growing";
  group.block_tokens = kBlockTokens;
  group.block_bytes = kHashBenchBlockBytes;
  group.pages = {page};
  ModelLayout layout;
  layout.groups = {group};
  PoolPlan plan;
  plan.groups = {{blocks, group.block_bytes, group.block_tokens}};
  return BlockManager::open(layout, plan, {});
}

void fill(ByteSpan bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof(word));
  }
}

// A manager of pairs: `kept` are sealed and listed, `copies` hold the same bytes and come again in
// every round.
class Pairs {
 public:
  static Result<std::unique_ptr<Pairs>> open(std::uint64_t count) {
    auto manager = open_manager(2 * count);
    if (!manager) return propagate(manager);
    auto pairs = std::unique_ptr<Pairs>(new Pairs(std::move(*manager)));
    auto taken = pairs->manager_->take(std::array{count}, "bench");
    if (!taken) return propagate(taken);
    for (OpenBlock& block : taken->front()) {
      fill(block.bytes(), pairs->kept_.size() + 1);
      SealedBlock sealed = pairs->manager_->seal(std::move(block), kBlockTokens);
      pairs->kept_.push_back(pairs->publish(std::move(sealed)));
    }
    const Status copied = pairs->copy();
    if (!copied) return propagate(copied);
    return pairs;
  }

  double bytes() const {
    return static_cast<double>(kept_.size()) * static_cast<double>(kHashBenchBlockBytes);
  }

  // Reads everything, the copies last, so that the first of both are in no cache.
  void settle() const {
    for (const SealedBlock& one : kept_) keep(read_all(one.bytes()));
    for (const OpenBlock& one : copies_) keep(read_all(one.bytes()));
  }

  double read() const {
    const double start = now_seconds();
    std::uint64_t sum = 0;
    for (const OpenBlock& copy : copies_) sum += read_all(copy.bytes());
    keep(sum);
    return now_seconds() - start;
  }

  double hash() const {
    const double start = now_seconds();
    std::uint64_t sum = 0;
    for (const OpenBlock& copy : copies_) sum += content_digest(copy.bytes(), 0).low;
    keep(sum);
    return now_seconds() - start;
  }

  Result<double> compare() const {
    const double start = now_seconds();
    bool equal = true;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      equal = std::memcmp(copies_[i].bytes().data(), kept_[i].bytes().data(),
                          kHashBenchBlockBytes) == 0 &&
              equal;
    }
    const double seconds = now_seconds() - start;
    if (!equal) return fail(ErrorCode::Corrupt, "copies of blocks differ from the blocks");
    return seconds;
  }

  // Seals every copy and makes it findable, which finds its equal and gives the copy back.
  Result<double> share() {
    const std::uint64_t shared = manager_->stats().content_shared_blocks;
    std::vector<SealedBlock> settled;
    settled.reserve(copies_.size());
    const double start = now_seconds();
    for (OpenBlock& copy : copies_) {
      settled.push_back(publish(manager_->seal(std::move(copy), kBlockTokens)));
    }
    const double seconds = now_seconds() - start;
    if (manager_->stats().content_shared_blocks - shared != kept_.size()) {
      return fail(ErrorCode::Corrupt, "a block with equal bytes was not shared");
    }
    settled.clear();
    const Status copied = copy();
    if (!copied) return propagate(copied);
    return seconds;
  }

 private:
  explicit Pairs(std::unique_ptr<BlockManager> manager) : manager_(std::move(manager)) {
    root_ = std::move(manager_->match({}, {}, {}, 0).groups.front().tip);
  }

  // Under tokens that nobody had before, so that only the bytes are equal.
  SealedBlock publish(SealedBlock&& block) {
    std::array<TokenId, kBlockTokens> tokens{};
    tokens.front() = ++published_;
    return manager_->publish(std::move(block), root_, tokens, {}).block;
  }

  Status copy() {
    auto taken = manager_->take(std::array{std::uint64_t{kept_.size()}}, "bench");
    if (!taken) return propagate(taken);
    copies_ = std::move(taken->front());
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      std::memcpy(copies_[i].bytes().data(), kept_[i].bytes().data(), kHashBenchBlockBytes);
    }
    return {};
  }

  std::unique_ptr<BlockManager> manager_;
  Tip root_;
  std::vector<SealedBlock> kept_;
  std::vector<OpenBlock> copies_;
  TokenId published_ = 0;
};

Figure figure_of(std::string name, std::string_view isa, double seconds, double bytes) {
  Figure figure;
  figure.name = std::move(name);
  figure.isa = isa;
  figure.seconds = seconds;
  figure.bytes_per_second = bytes / seconds;
  return figure;
}

void bound_by(double limit_bytes_per_second, std::string bound, Figure* figure) {
  figure->fraction_of_bound = *figure->bytes_per_second / limit_bytes_per_second;
  figure->bound = std::move(bound);
}

}  // namespace

Result<std::vector<Figure>> bench_hash(const HashBenchOptions& options, Machine* machine) {
  if (options.progress) options.progress("filling blocks", 0);
  auto opened = Pairs::open(options.pairs);
  if (!opened) return propagate(opened);
  Pairs& pairs = **opened;
  using Seconds = Result<double>;
  const std::vector<Subject> subjects = {
      {"reading memory", [&]() -> Seconds { return pairs.settle(), pairs.read(); }},
      {"hashing", [&]() -> Seconds { return pairs.settle(), pairs.hash(); }},
      {"comparing", [&] { return pairs.settle(), pairs.compare(); }},
      {"sealing and sharing", [&] { return pairs.settle(), pairs.share(); }},
  };
  const auto seconds = run_rounds(subjects, options.rounds, options.progress);
  if (!seconds) return propagate(seconds);
  const double bytes = pairs.bytes();
  const double read_rate = bytes / median((*seconds)[0]);
  machine->read_bytes_per_second = read_rate;
  const auto isa = content_digest_isa();
  Figure hash = figure_of("hash: XXH3-128", isa, median((*seconds)[1]), bytes);
  Figure compare = figure_of("hash: memcmp", widest_isa(), median((*seconds)[2]), bytes);
  Figure share = figure_of("hash: seal and share", isa, median((*seconds)[3]), bytes);
  const double h = *hash.bytes_per_second;
  const double m = *compare.bytes_per_second;
  bound_by(read_rate, "read", &hash);
  bound_by(read_rate / 2, "read of two blocks", &compare);
  bound_by(1 / (1 / h + 1 / m), "1/(1/h + 1/m)", &share);
  return std::vector<Figure>{std::move(hash), std::move(compare), std::move(share)};
}

}  // namespace emblema::bench
