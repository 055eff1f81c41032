// Work cut into parts, on threads that live for one call.
//
// A pool would keep threads that nobody asked for, and a spinning one (OpenMP's) takes the other
// cores from whoever runs next to it. Starting a thread costs some 20 microseconds: parts are
// large.
#pragma once

#include <cstdint>
#include <functional>

namespace emblema {

// Calls work(part) once for every part < parts. Worker w of `threads` takes a contiguous run of
// parts in order; the calling thread is worker 0, and takes over for threads that the system does
// not give. REQUIRES: threads >= 1; calls for different parts may run at once; work does not throw.
void run_parts(std::uint32_t threads, std::uint64_t parts,
               const std::function<void(std::uint64_t part)>& work);

}  // namespace emblema
