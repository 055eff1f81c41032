# Compile flags of everything built here. No -march: wider instructions are opened per file, never
# for the library (docs/architecture.md, "Kernels").
add_library(emblema_flags INTERFACE)
target_compile_options(emblema_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -fno-math-errno)
# g++ 12 reports std::string::insert and + as overlapping copies (GCC bug 105651).
target_compile_options(emblema_flags INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(EMBLEMA_WERROR)
  target_compile_options(emblema_flags INTERFACE -Werror)
endif()
if(EMBLEMA_CHECKED)
  target_compile_definitions(emblema_flags INTERFACE EMBLEMA_CHECKED=1)
endif()
if(EMBLEMA_SANITIZE)
  set(sanitize -fsanitize=${EMBLEMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(emblema_flags INTERFACE ${sanitize})
  add_link_options(${sanitize})
endif()
if(EMBLEMA_FUZZ)
  target_compile_options(emblema_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
# -g1 keeps line numbers in stack traces at a third of the build's disk and link time.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
# The kernels' loops want whole unrolling and, in the plain one, SIMD of the baseline machine, which
# gcc gives at -O3 only; where a floating-point operation stands under a select, only if it need not
# keep exception flags. No value changes. In a debug build too: tests run millions of products.
file(GLOB isa_files ${PROJECT_SOURCE_DIR}/emblema/kernels/*/block_primitives.cc)
set_source_files_properties(${isa_files} PROPERTIES COMPILE_OPTIONS "-O3;-fno-trapping-math")
