// What contract/ promises to any thread. Run under ThreadSanitizer by CI.
#include <array>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/contract/ids.h"

namespace emblema {
namespace {

// FIPS 180-2, appendix B.1 and B.2: the digests of "abc" and of the 448-bit message.
TEST(Sha256FromManyThreads, GivesThePublishedDigests) {
  const std::string short_message = "abc";
  const std::string long_message = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  constexpr std::size_t kThreads = 4;
  std::array<int, kThreads> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        const std::string& message =
            (round + static_cast<int>(i)) % 2 == 0 ? short_message : long_message;
        const std::string expected =
            &message == &short_message
                ? "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                : "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        if (sha256(std::as_bytes(std::span(message))).hex() != expected) ++wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, kThreads>{}));
}

}  // namespace
}  // namespace emblema
