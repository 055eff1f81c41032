# emblema_add_compile_fail(source): two tests, that `source` compiles as it stands, and that with
# EMBLEMA_MUST_FAIL defined the compiler refuses it for the reason given in its `// expect:` lines.
function(emblema_add_compile_fail source)
  get_filename_component(name ${source} NAME_WE)
  set(folder ${PROJECT_SOURCE_DIR}/test/compile_fail)
  foreach(wanted compiles refused)
    add_test(NAME compile_fail.${name}.${wanted}
      COMMAND ${CMAKE_COMMAND} -D source=${source} -D wanted=${wanted}
        -D compiler=${CMAKE_CXX_COMPILER}
        "-D includes=$<TARGET_PROPERTY:emblema,INTERFACE_INCLUDE_DIRECTORIES>"
        -P ${folder}/check.cmake)
    set_tests_properties(compile_fail.${name}.${wanted} PROPERTIES
      LABELS "fast;source" TIMEOUT 60)
  endforeach()
endfunction()
