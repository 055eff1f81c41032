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
# The plain kernels are loops that become SIMD (of the baseline machine) only at -O3 in gcc; those
# with a floating-point operation under a select, only where it need not keep exception flags. No
# value changes.
set_source_files_properties(${PROJECT_SOURCE_DIR}/emblema/kernels/scalar/block_primitives.cc
  PROPERTIES COMPILE_OPTIONS "-O3;-fno-trapping-math")
