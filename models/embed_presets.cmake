# Writes a C++ file that defines emblema::presets() from FOLDER/<name>.json for the NAMES given,
# which are separated by commas and sorted.
string(REPLACE "," ";" names "${NAMES}")
set(entries "")
foreach(name IN LISTS names)
  set(file ${FOLDER}/${name}.json)
  file(READ ${file} json)
  string(FIND "${json}" ")preset\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} holds the text that ends an embedded preset")
  endif()
  string(APPEND entries "      {\"${name}\", R\"preset(${json})preset\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made from models/*.json by models/embed_presets.cmake.
#include \"emblema/model/model_config.h\"

namespace emblema {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
${entries}  };
  return all;
}

}  // namespace emblema
")
