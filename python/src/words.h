// Translates C++ names in the library's messages to Python names.
#pragma once

#include <string>

namespace heddle::python {

// Replaces C++ names of functions, classes and options in a message by the names in the Python package, such
// as "KVStore::push" by "KVStore.push".
std::string in_python_words(std::string text);

}  // namespace heddle::python
