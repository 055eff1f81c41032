// Who may hold how much: a limit for each tenant on the logical bytes of its sequences.
//
// Logical: a block counts once for every sequence that holds it, whoever shares its memory, so that
// a tenant's quota does not depend on what others have stored. What only entries or Segment objects
// hold is not counted: entries go when memory is wanted. Any thread may call; a Charge belongs to
// one sequence.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "emblema/contract/result.h"

namespace emblema {

// What a tenant holds and may hold.
struct TenantUsage {
  std::uint64_t held_bytes = 0;   // logical, by its sequences now
  std::uint64_t quota_bytes = 0;  // 0: no limit
  std::uint64_t refusals = 0;     // requests refused for the quota, since open
};

class QuotaBook {
 public:
  using Exceptions = std::map<std::string, std::uint64_t, std::less<>>;

  // `default_bytes` for every tenant that `exceptions` does not name; 0 is no limit in both.
  QuotaBook(std::uint64_t default_bytes, Exceptions exceptions)
      : default_bytes_(default_bytes), exceptions_(std::move(exceptions)) {}

  TenantUsage usage(std::string_view tenant) const;
  std::uint64_t refusals() const;  // over all tenants

 private:
  friend class Charge;
  struct Account {
    Account(std::string_view name, std::uint64_t bytes) : tenant(name), quota_bytes(bytes) {}
    const std::string tenant;
    const std::uint64_t quota_bytes;
    std::atomic<std::uint64_t> held_bytes = 0;
    std::atomic<std::uint64_t> refusals = 0;
  };
  std::uint64_t quota_of(std::string_view tenant) const;
  Account* account(std::string_view tenant);

  std::uint64_t default_bytes_;
  Exceptions exceptions_;
  mutable std::mutex mutex_;  // guards the map; accounts stay where they are
  std::map<std::string, std::unique_ptr<Account>, std::less<>> accounts_;
};

// What one sequence has on its tenant's account; gives it back when it dies.
class Charge {
 public:
  Charge() = default;  // of nobody: counts nothing
  Charge(QuotaBook* book, std::string_view tenant) : account_(book->account(tenant)) {}
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

  std::uint64_t bytes() const { return bytes_; }
  bool is_limited() const { return account_ != nullptr && account_->quota_bytes > 0; }

  // Room for so many bytes more, put on the account at once.
  // OutOfBlocks: names tenant, quota, held and asked; nothing was changed.
  [[nodiscard]] Status grow(std::uint64_t bytes);

  // The same as a charge of its own on the same account: absorb() it when the bytes are held, or
  // let it go.
  Result<Charge> room(std::uint64_t bytes) const;

  // Takes over what was granted. REQUIRES: the same tenant.
  void absorb(Charge&& granted) { bytes_ += std::exchange(granted.bytes_, 0); }

  // The sequence holds so many bytes now, whatever was asked for before.
  void settle(std::uint64_t bytes);

 private:
  QuotaBook::Account* account_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace emblema
