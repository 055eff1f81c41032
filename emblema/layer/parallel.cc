#include "emblema/layer/parallel.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "emblema/contract/check.h"

namespace emblema {
namespace {

void run_worker(std::uint64_t worker, std::uint64_t workers, std::uint64_t parts,
                const std::function<void(std::uint64_t)>& work) {
  // Neither product overflows: parts are heads, or columns of a matrix in memory.
  const std::uint64_t end = parts * (worker + 1) / workers;
  for (std::uint64_t part = parts * worker / workers; part < end; ++part) work(part);
}

}  // namespace

void run_parts(std::uint32_t threads, std::uint64_t parts,
               const std::function<void(std::uint64_t part)>& work) {
  EMBLEMA_CHECK(threads >= 1, "threads >= 1");
  const std::uint64_t workers = std::min<std::uint64_t>(threads, parts);
  if (workers <= 1) {
    run_worker(0, 1, parts, work);
    return;
  }
  std::vector<std::jthread> helpers;
  helpers.reserve(workers - 1);
  std::uint64_t started = 1;
  try {
    for (; started < workers; ++started) {
      helpers.emplace_back(
          [started, workers, parts, &work] { run_worker(started, workers, parts, work); });
    }
  } catch (const std::system_error&) {  // no more threads: their parts are done here
  }
  run_worker(0, workers, parts, work);
  for (; started < workers; ++started) run_worker(started, workers, parts, work);
}

}  // namespace emblema
