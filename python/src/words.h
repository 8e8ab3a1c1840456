// Translates C++ names in the library's messages to Python names.
#pragma once

#include <string>

namespace heddle::python {

// Names of functions, classes and options of C++ become those of this package: "KVStore::push" is "KVStore.push".
std::string in_python_words(std::string text);

}  // namespace heddle::python
