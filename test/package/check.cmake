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
  -D CMAKE_BUILD_TYPE=RelWithDebInfo -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_FLAGS=${flags})
run(${CMAKE_COMMAND} --build ${work}/build)

execute_process(COMMAND ${work}/build/user RESULT_VARIABLE result OUTPUT_VARIABLE printed
  ERROR_VARIABLE printed)
# 1.5 x 2^40; SHA-256 of nothing (FIPS 180-4); DeepSeek-V3's config.json.
set(expected "1649267441664
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
61 layers, latent rank 512
")
if(NOT result EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "exit code ${result}, printed:\n${printed}\nexpected:\n${expected}")
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
