# emblema_find_plain(target header library): an imported target for a library without a CMake
# package. Installed beside emblema-config.cmake, which needs the same.
function(emblema_find_plain target header library)
  if(TARGET ${target})
    return()
  endif()
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(${target}_INCLUDE_DIR ${target}_LIBRARY)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE_DIR})
endfunction()

# oneDNN and the OpenMP runtime that its packages are built on, whose team size layer/gemm.cc
# bounds. The runtime is named by its soname: the package that oneDNN pulls in has no header and no
# plain link.
function(emblema_find_dnnl)
  emblema_find_plain(emblema_dnnl dnnl.h dnnl)
  find_library(emblema_openmp_LIBRARY NAMES libgomp.so.1 REQUIRED)
  mark_as_advanced(emblema_openmp_LIBRARY)
  set_property(TARGET emblema_dnnl PROPERTY INTERFACE_LINK_LIBRARIES ${emblema_openmp_LIBRARY})
endfunction()
