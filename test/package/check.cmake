# Installs a build into an empty prefix, builds test/package against it and compares what it prints.
#   cmake -D build=... -D work=... -D source=... -D compiler=... -D flags=... -P check.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${source} -B ${work}/build -G Ninja -D CMAKE_PREFIX_PATH=${work}/prefix
  -D CMAKE_BUILD_TYPE=RelWithDebInfo -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_FLAGS=${flags}
  -D CMAKE_C_FLAGS=${flags})
run(${CMAKE_COMMAND} --build ${work}/build)

function(expect_printed program expected)
  execute_process(COMMAND ${work}/build/${program} RESULT_VARIABLE result OUTPUT_VARIABLE printed
    ERROR_VARIABLE printed)
  if(NOT result EQUAL 0 OR NOT printed STREQUAL expected)
    message(FATAL_ERROR "${program}: exit code ${result}, printed:\n${printed}\n"
      "expected:\n${expected}")
  endif()
endfunction()

# 1.5 x 2^40; SHA-256 of nothing (FIPS 180-4); DeepSeek-V3's config.json.
expect_printed(user "1649267441664
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
61 layers, latent rank 512
")
# 61 layers of 512 + 64 numbers of 2 bytes.
expect_printed(user_c "61 layers, 70272 bytes per token\n")

# A project in C alone is told what it lacks.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${work}/build_c -G Ninja
    -D CMAKE_PREFIX_PATH=${work}/prefix -D user_languages=C
  RESULT_VARIABLE result OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
string(REGEX REPLACE "[ \n]+" " " printed "${printed}")
if(result EQUAL 0 OR NOT printed MATCHES "LANGUAGES C CXX")
  message(FATAL_ERROR "a project without C++ was not told so:\n${printed}")
endif()

# Nothing of the tree it was built in may be needed, or named, by the installed package.
file(GLOB_RECURSE package_files ${work}/prefix/lib*/*.cmake)
foreach(file ${package_files})
  file(STRINGS ${file} named REGEX "${build}|${source}")
  if(named)
    message(FATAL_ERROR "${file} names the build tree: ${named}")
  endif()
endforeach()
file(GLOB_RECURSE strays ${work}/prefix/include/*.cc ${work}/prefix/include/*_test*.h)
if(strays)
  message(FATAL_ERROR "installed by mistake: ${strays}")
endif()
