#include "emblema/session/quota.h"

#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {

std::uint64_t QuotaBook::quota_of(std::string_view tenant) const {
  const auto exception = exceptions_.find(tenant);
  return exception == exceptions_.end() ? default_bytes_ : exception->second;
}

QuotaBook::Account* QuotaBook::account(std::string_view tenant) {
  const std::lock_guard lock(mutex_);
  auto found = accounts_.find(tenant);
  if (found == accounts_.end()) {
    found = accounts_.emplace(tenant, std::make_unique<Account>(tenant, quota_of(tenant))).first;
  }
  return found->second.get();
}

TenantUsage QuotaBook::usage(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end()) return {.quota_bytes = quota_of(tenant)};
  const Account& account = *found->second;
  return {account.held_bytes, account.quota_bytes, account.refusals};
}

std::uint64_t QuotaBook::refusals() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [tenant, account] : accounts_) sum += account->refusals;
  return sum;
}

Charge& Charge::operator=(Charge&& other) noexcept {
  std::swap(account_, other.account_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Charge::~Charge() {
  if (!EMBLEMA_CANARY(kQuotaNotGivenBack)) settle(0);
}

Status Charge::grow(std::uint64_t bytes) {
  if (account_ == nullptr) return {};
  std::uint64_t held = account_->held_bytes;
  while (true) {
    const auto after = checked_add(held, bytes);
    const bool within = after && (account_->quota_bytes == 0 || *after <= account_->quota_bytes);
    if (!within && bytes > 0) {
      ++account_->refusals;
      return fail(ErrorCode::OutOfBlocks,
                  fmt::format("tenant '{}': {} bytes asked for and {} held; its quota is {} bytes; "
                              "end some of its sequences, or raise tenant_quota_bytes",
                              account_->tenant, bytes, held, account_->quota_bytes));
    }
    if (account_->held_bytes.compare_exchange_weak(held, held + bytes)) break;
  }
  bytes_ += bytes;
  return {};
}

Result<Charge> Charge::room(std::uint64_t bytes) const {
  Charge granted;
  granted.account_ = account_;
  if (Status ok = granted.grow(bytes); !ok) return propagate(ok);
  return granted;
}

void Charge::settle(std::uint64_t bytes) {
  if (account_ == nullptr || bytes == bytes_) return;
  if (bytes > bytes_) {
    account_->held_bytes += bytes - bytes_;
  } else {
    const std::uint64_t before = account_->held_bytes.fetch_sub(bytes_ - bytes);
    EMBLEMA_CHECK(before >= bytes_ - bytes, "no more is given back than was held");
  }
  bytes_ = bytes;
}

}  // namespace emblema
