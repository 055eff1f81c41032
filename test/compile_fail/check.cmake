# One compilation of one file: `wanted` is compiles, or refused.
# In the C locale a compiler quotes with plain ' whatever the machine speaks.
# An ignored Status is an error, as in the build (where every warning is one).
set(command ${CMAKE_COMMAND} -E env LC_ALL=C ${compiler} -std=c++20 -fsyntax-only
  -Werror=unused-result)
foreach(folder ${includes})
  list(APPEND command -I ${folder})
endforeach()
if(wanted STREQUAL refused)
  list(APPEND command -D EMBLEMA_MUST_FAIL)
endif()
execute_process(COMMAND ${command} ${source} RESULT_VARIABLE result OUTPUT_VARIABLE output
  ERROR_VARIABLE output)

if(wanted STREQUAL compiles)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "does not compile even without EMBLEMA_MUST_FAIL:\n${output}")
  endif()
  return()
endif()

if(result EQUAL 0)
  message(FATAL_ERROR "compiles, and must not: ${source}")
endif()
file(STRINGS ${source} reasons REGEX "^// expect: ")
if(NOT reasons)
  message(FATAL_ERROR "${source} has no line `// expect: part of the compiler's message`")
endif()
foreach(reason ${reasons})
  string(REPLACE "// expect: " "" fragment "${reason}")
  string(FIND "${output}" "${fragment}" found)
  if(NOT found EQUAL -1)
    return()
  endif()
endforeach()
message(FATAL_ERROR "refused, but for none of the reasons given\n${reasons}\n${output}")
