# cmake -D WORD=HEDDLE_LAYERS -D SOURCES=LIST -D OUTPUT=FILE -D INCLUDE=HEADER -D NAMESPACE=NAME -D TABLE=TYPE -D PREFIX=register_
# -D SUFFIX=_layers -D ALL=register_layers [-D FAMILIES=ON] -P registrations.cmake: writes the C++ file whose function ALL calls, with a table, every
# function that WORD heads in the sources, as in HEDDLE_LAYERS(pooling). A file without a change is left as it is.
cmake_minimum_required(VERSION 3.25)
set(names)
foreach(source ${SOURCES})
  file(STRINGS ${source} found REGEX "^[ \t]*${WORD}")
  foreach(line ${found})
    if(NOT line MATCHES "^${WORD}\\([a-z0-9_]+\\) ")
      message(FATAL_ERROR "${source}: write ${WORD}(lower_case_name) at the begin of a line, not ${line}")
    endif()
  endforeach()
  list(TRANSFORM found REPLACE "^${WORD}\\(([a-z0-9_]+)\\).*" "\\1")
  list(APPEND names ${found})
endforeach()

set(text "// Made by cmake/registrations.cmake.\n#include \"${INCLUDE}\"\n\nnamespace ${NAMESPACE} {\n\n")
set(calls "")
foreach(name ${names})
  string(APPEND text "void ${PREFIX}${name}${SUFFIX}(${TABLE}& table);\n")
  if(FAMILIES)
    string(APPEND calls "  table.family(\"\");\n")  # each file names its own
  endif()
  string(APPEND calls "  ${PREFIX}${name}${SUFFIX}(table);\n")
endforeach()
string(APPEND text "\nvoid ${ALL}(${TABLE}& table) {\n${calls}}\n\n}  // namespace ${NAMESPACE}\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
