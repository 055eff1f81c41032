# A room's files by their suffix:
#   x.cc                   the library
#   x_test.cc              <room>_test, label fast
#   x_concurrency_test.cc  <room>_concurrency_test, label fast-concurrency: also run under TSan
#   x_slow_test.cc         <room>_slow_test, label slow
#   x_torture_test.cc      <room>_torture_test, label torture: `make torture` only
#   x_testing.h, x_test.h  code that tests share; never installed
#   x_bench.cc, x_bench.h  a benchmark: built into bench/ (emblema_bench), never installed
#   x_fuzz.cc              a fuzz target of its own (label fuzz-smoke; libFuzzer with preset fuzz)
function(emblema_room folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  set(library ${sources})
  list(FILTER library EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  target_sources(emblema PRIVATE ${library})
  if(EMBLEMA_DEVELOPER)
    emblema_room_tests(${folder} "${sources}")
  endif()
endfunction()
