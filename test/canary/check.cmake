# Runs the canary program with a deliberate bug, once for each filter of `tests`. Each must fail, in
# a check of the library or of the test, and say so.
foreach(test ${tests})
  execute_process(COMMAND ${CMAKE_COMMAND} -E env EMBLEMA_CANARY=${bug} ${program}
      --gtest_filter=${test}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 0)
    message(FATAL_ERROR "${bug} went unseen by ${test}:\n${output}")
  endif()
  string(REGEX MATCH "check failed: [^\n]*|step [0-9]+, operation [^\n]*|_test.cc:[0-9]+: Failure"
    caught "${output}")
  if(NOT caught)
    message(FATAL_ERROR "${test} failed, but not by a check:\n${output}")
  endif()
  message(STATUS "${test}: caught (${result}): ${caught}")
endforeach()
