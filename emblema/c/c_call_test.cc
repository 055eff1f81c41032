// What a C program cannot bring about: exceptions, and messages longer than their place.
#include "emblema/c/c_call.h"

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace emblema::c_interface {
namespace {

TEST(GuardedCall, KeepsExceptionsIn) {
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }), EMBLEMA_IO);
  EXPECT_STREQ(emblema_last_error(), "memory was refused");
  EXPECT_EQ(guarded([]() -> Status { throw std::length_error("too long"); }), EMBLEMA_IO);
  EXPECT_STREQ(emblema_last_error(), "too long");
  EXPECT_EQ(guarded([]() -> Status { throw 7; }), EMBLEMA_IO);
  EXPECT_STREQ(emblema_last_error(), "an error without a name");
}

TEST(GuardedCall, GivesTheStatusOfEveryCode) {
  const std::pair<ErrorCode, emblema_status> codes[] = {
      {ErrorCode::NotFound, EMBLEMA_NOT_FOUND},
      {ErrorCode::Corrupt, EMBLEMA_CORRUPT},
      {ErrorCode::OutOfBlocks, EMBLEMA_OUT_OF_BLOCKS},
      {ErrorCode::Io, EMBLEMA_IO},
      {ErrorCode::Invalid, EMBLEMA_INVALID},
      {ErrorCode::Unsupported, EMBLEMA_UNSUPPORTED}};
  for (const auto& [code, status] : codes) {
    EXPECT_EQ(guarded([code = code]() -> Status { return fail(code, "why"); }), status);
    EXPECT_STREQ(emblema_last_error(), "why");
    EXPECT_EQ(emblema_status_name(status), to_string(code));
  }
  EXPECT_EQ(guarded([]() -> Status { return {}; }), EMBLEMA_OK);
  EXPECT_STREQ(emblema_last_error(), "");
}

TEST(LastError, IsCutToItsPlaceAndBelongsToAThread) {
  const std::string longest(1023, 'x');
  remember(EMBLEMA_INVALID, longest + "yz");
  EXPECT_EQ(emblema_last_error(), longest);
  std::string of_another = "unset";
  std::thread([&] {
    of_another = emblema_last_error();
    remember(EMBLEMA_INVALID, "another thread's");
  }).join();
  EXPECT_EQ(of_another, "");
  EXPECT_EQ(emblema_last_error(), longest);
}

}  // namespace
}  // namespace emblema::c_interface
