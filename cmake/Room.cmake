# A room's files by their suffix:
#   x.cc -> the library    x_test.cc -> <room>_test, label fast    x_slow_test.cc -> label slow
#   x_fuzz.cc -> a fuzz target of its own (fuzz-smoke test everywhere, libFuzzer with the preset fuzz)
function(emblema_room folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  set(library ${sources})
  list(FILTER library EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  target_sources(emblema PRIVATE ${library})
  if(EMBLEMA_DEVELOPER)
    emblema_room_tests(${folder} "${sources}")
  endif()
endfunction()
