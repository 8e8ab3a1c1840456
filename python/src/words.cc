#include "words.h"

#include <cctype>
#include <string_view>

namespace heddle::python {
namespace {

struct Word {
  std::string_view cpp, python;
};

// The C++ names whose Python names differ by more than a "." for the "::".
constexpr Word kWords[] = {{"CommOptions::", "Communicator's "},
                           {"Communicator::create_local", "Communicator.local"},
                           {"create_local", "local"},
                           {"Communicator::create", "Communicator"},
                           {"create()", "Communicator()"},
                           {"KVStore::create", "KVStore"},
                           {"NoGrad", "no_grad()"},
                           {"keep_tape = true", "keep_tape=True"},
                           {"its gradient undefined", "its gradient None"},
                           {"operator()", "x[...]"},
                           {"operator[]", "x[...]"},
                           {"call set_requires_grad on x", "set x.requires_grad = True"},
                           {"set_requires_grad", "requires_grad"}};

constexpr std::string_view kClasses[] = {"Communicator", "Engine",        "KVStore",
                                         "NDArray",      "Optimizer",     "RowSparse",
                                         "Sequential",   "SummaryWriter", "Trainer"};

bool is_part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Replaces `word` by `by` where it is not part of a longer name.
void replace_all(std::string& text, std::string_view word, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    const std::size_t end = at + word.size();
    const bool longer = (at > 0 && is_part_of_name(text[at - 1])) ||
                        (end < text.size() && is_part_of_name(word.back()) && is_part_of_name(text[end]));
    if (!longer) text.replace(at, word.size(), by);
    at += longer ? word.size() : by.size();
  }
}

}  // namespace

std::string in_python_words(std::string text) {
  for (const Word& word : kWords) replace_all(text, word.cpp, word.python);
  for (const std::string_view name : kClasses) {
    const std::string called(name);
    replace_all(text, called + "::", called + ".");
  }
  return text;
}

}  // namespace heddle::python
