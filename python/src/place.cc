#include "place.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>

#include "interpreter.h"

namespace heddle::python {
namespace {

// What libstdc++'s source_location points to.
struct Site {
  const char* file;
  const char* function;
  std::uint32_t line;
  std::uint32_t column;
};
static_assert(sizeof(std::source_location) == sizeof(void*));

// A code object and a line that were looked up: most calls come from the same lines again. The GIL guards all of this file.
struct Seen {
  PyObject* code = nullptr;  // owned, so that no other code object gets the address
  int line = 0;
  const Site* site = nullptr;  // null: code of this package
};
constexpr std::size_t kSeen = 1024;
std::array<Seen, kSeen> seen;

const Site* make_site(const char* file, const char* function, int line) {
  static auto& sites = *new std::map<std::tuple<const char*, const char*, int>, Site>;
  const auto [at, added] = sites.try_emplace({file, function, line});
  if (added) at->second = {file, function, static_cast<std::uint32_t>(line), 0};
  return &at->second;
}

// Null for the files of this package, whose callers count.
const Site* site_of(nb::handle code, int line) {
  static const std::string& package = *new std::string([] {
    const auto path = nb::cast<nb::str>(nb::module_::import_("heddle").attr("__path__")[nb::int_(0)]);
    return std::string(path.c_str()) + "/";
  }());
  const auto file = nb::cast<nb::str>(code.attr("co_filename"));
  if (std::strncmp(file.c_str(), package.c_str(), package.size()) == 0) return nullptr;
  const auto name = nb::cast<nb::str>(code.attr("co_name"));
  return make_site(interned(std::string_view(file.c_str())), interned(std::string_view(name.c_str())), line);
}

const Site* look_up(PyFrameObject* frame) {
  auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  const nb::object owned = nb::steal(code);
  const int line = PyFrame_GetLineNumber(frame);
  const std::size_t hash =
      (reinterpret_cast<std::uintptr_t>(code) >> 4) + static_cast<std::size_t>(line) * 31;
  Seen& entry = seen[hash % kSeen];
  if (entry.code == code && entry.line == line) return entry.site;
  const Site* site = site_of(code, line);
  PyObject* old = entry.code;
  entry = {owned.inc_ref().ptr(), line, site};
  Py_XDECREF(old);
  return site;
}

}  // namespace

Where python_place() {
  const auto* frame = PyEval_GetFrame();
  if (!frame) return Where();
  const Site* site = look_up(const_cast<PyFrameObject*>(frame));
  if (!site) {
    nb::object outer = nb::borrow(reinterpret_cast<PyObject*>(const_cast<PyFrameObject*>(frame)));
    while (!site) {
      outer = outer.attr("f_back");
      if (outer.is_none()) return Where();
      site = look_up(reinterpret_cast<PyFrameObject*>(outer.ptr()));
    }
  }
  return std::bit_cast<Where>(site);
}

const char* interned(std::string_view text) {
  static auto& texts = *new std::set<std::string, std::less<>>;
  auto at = texts.find(text);
  if (at == texts.end()) at = texts.emplace(text).first;
  return at->c_str();
}

const char* interned(nb::handle text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!bytes) raise_set();
  return interned(std::string_view(bytes, static_cast<std::size_t>(size)));
}

}  // namespace heddle::python
