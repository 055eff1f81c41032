# Every dependency, in one place. Reasons: docs/decisions/0003-dependencies.md; packages:
# tools/setup.
find_package(Threads REQUIRED)
find_package(tl-expected REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CLI11 REQUIRED)

# Found by header and library: Debian's xxhash ships no CMake package, and that of its oneDNN asks
# for OpenCL, which nobody here needs.
include(FindPlainLibraries)
emblema_find_plain(emblema_xxhash xxhash.h xxhash)
# On x86 Debian's and Ubuntu's xxHash chooses its vectors at run time, if called by these names. The
# symbol decides: a library built without them hashes as it was compiled.
include(CheckCXXSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES emblema_xxhash)
check_cxx_symbol_exists(XXH3_128bits_withSeed_dispatch xxh_x86dispatch.h EMBLEMA_XXHASH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
emblema_find_dnnl()

if(EMBLEMA_DEVELOPER)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
