# Tests: one binary per room and speed, one ctest entry per case.
set(EMBLEMA_TEST_TIMEOUT_SECONDS 600 CACHE STRING "A test that takes longer has failed")

# What a sanitizer run builds, instead of everything: `cmake --build --target emblema_tests_fast`.
foreach(label fast concurrency slow torture fuzz)
  add_custom_target(emblema_tests_${label})
endforeach()

# emblema_add_test(name label sources...). A test that is fast and about threads has the one label
# fast-concurrency, which both `ctest -L fast` and `ctest -L concurrency` find: a list of labels
# does not survive gtest_discover_tests in CMake 3.25.
function(emblema_add_test name label)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE emblema emblema_flags nlohmann_json::nlohmann_json fmt::fmt
    GTest::gmock GTest::gtest_main rapidcheck)
  target_compile_definitions(${name} PRIVATE EMBLEMA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${label} TIMEOUT ${EMBLEMA_TEST_TIMEOUT_SECONDS})
  string(REPLACE "-" ";" kinds ${label})
  foreach(kind ${kinds})
    add_dependencies(emblema_tests_${kind} ${name})
  endforeach()
endfunction()

# Seeds: test/corpus/<name>/ where there is one, and the presets.
function(emblema_add_fuzz source)
  get_filename_component(name ${source} NAME_WE)
  if(EMBLEMA_FUZZ)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(emblema_tests_fuzz ${name})
  else()
    add_executable(${name} ${source} ${PROJECT_SOURCE_DIR}/test/fuzz_smoke_main.cc)
    set(seeds ${PROJECT_SOURCE_DIR}/models)
    if(EXISTS ${PROJECT_SOURCE_DIR}/test/corpus/${name})
      list(APPEND seeds ${PROJECT_SOURCE_DIR}/test/corpus/${name})
    endif()
    add_test(NAME ${name} COMMAND ${name} ${seeds})
    set_tests_properties(${name} PROPERTIES LABELS "fast;fuzz-smoke" TIMEOUT 120)
    add_dependencies(emblema_tests_fast ${name})
  endif()
  # GoogleTest, because what a room's tests share speaks it.
  target_link_libraries(${name} PRIVATE emblema emblema_flags fmt::fmt GTest::gtest)
endfunction()

function(emblema_room_tests folder sources)
  string(REPLACE "/" "_" room ${folder})
  set(rest ${sources})
  foreach(kind concurrency slow torture)
    set(chosen ${rest})
    list(FILTER chosen INCLUDE REGEX "_${kind}_test\\.cc$")
    list(FILTER rest EXCLUDE REGEX "_${kind}_test\\.cc$")
    string(REGEX REPLACE "^concurrency$" "fast-concurrency" label ${kind})
    if(chosen)
      emblema_add_test(${room}_${kind}_test ${label} ${chosen})
    endif()
  endforeach()
  set(fast ${rest})
  list(FILTER fast INCLUDE REGEX "_test\\.cc$")
  if(fast)
    emblema_add_test(${room}_test fast ${fast})
  endif()
  list(FILTER rest INCLUDE REGEX "_fuzz\\.cc$")
  foreach(source ${rest})
    emblema_add_fuzz(${source})
  endforeach()
endfunction()
