# Runs a test program that was built with a deliberate bug, one setup of it after the other. Each
# must fail, in a check of the library or of the test, and say so.
foreach(setup OneGroupInline OneGroupDeferred TwoGroupsInline TwoGroupsDeferred)
  execute_process(COMMAND ${program} --gtest_filter=*Bits256${setup}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 0)
    message(FATAL_ERROR "the bug went unseen with ${setup}:\n${output}")
  endif()
  string(REGEX MATCH "check failed: [^\n]*|step [0-9]+, operation [^\n]*" caught "${output}")
  if(NOT caught)
    message(FATAL_ERROR "failed with ${setup}, but not by a check:\n${output}")
  endif()
  message(STATUS "${setup}: caught (${result}): ${caught}")
endforeach()
