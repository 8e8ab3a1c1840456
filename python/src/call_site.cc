#include "call_site.h"

#include <array>
#include <bit>
#include <cstdint>
#include <dlfcn.h>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>

#include "errors.h"
#include "interpreter.h"

namespace heddle::python {
namespace {

// The layout of the object that libstdc++'s source_location points to.
struct Site {
  const char* file;
  const char* function;
  std::uint32_t line;
  std::uint32_t column;
};
static_assert(sizeof(std::source_location) == sizeof(void*));

// An entry of the cache of call sites: most calls come from lines that were looked up before. The GIL guards
// all variables of this file.
struct Seen {
  PyObject* code = nullptr;  // a reference that is kept, so that no other code object gets this address
  int position = 0;
  const Site* site = nullptr;  // null if the code belongs to the package heddle
};
constexpr std::size_t kSeen = 1024;
std::array<Seen, kSeen> seen;

// The limits of the number of sites and of the bytes of texts. Both are never freed, because ops, errors and
// traces point to them.
constexpr std::size_t kMostSites = 1 << 18;
constexpr std::size_t kMostBytes = 16 << 20;

// A number for the frame's position in its code: the index of the instruction, which is cheap to get. The
// function for it is not in the stable ABI. If the interpreter lacks it, the number is that of the line,
// which CPython has to compute.
int position_in(PyFrameObject* frame) {
  using Position = int (*)(PyFrameObject*);
  static const auto instruction = reinterpret_cast<Position>(dlsym(RTLD_DEFAULT, "PyFrame_GetLasti"));
  return instruction ? instruction(frame) : PyFrame_GetLineNumber(frame);
}

const Site* make_site(const char* file, const char* function, int line) {
  static auto& sites = *new std::map<std::tuple<const char*, const char*, int>, Site>;
  static constexpr Site kUnknown{"", "", 0, 0};
  if (sites.size() == kMostSites) {
    const auto at = sites.find({file, function, line});
    return at == sites.end() ? &kUnknown : &at->second;
  }
  const auto [at, added] = sites.try_emplace({file, function, line});
  if (added) at->second = {file, function, static_cast<std::uint32_t>(line), 0};
  return &at->second;
}

// The site of a line of Python code. Null for code of the package heddle, whose caller's line is to be used.
const Site* site_of(nb::handle code, int line) {
  static const std::string& package = *new std::string(
      [] { return utf8_of(nb::module_::import_("heddle").attr("__path__")[nb::int_(0)]) + "/"; }());
  const std::string file = utf8_of(code.attr("co_filename"));
  if (file.starts_with(package)) return nullptr;
  return make_site(interned(file), interned(utf8_of(code.attr("co_name"))), line);
}

const Site* look_up(PyFrameObject* frame) {
  auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  const nb::object owned = nb::steal(code);
  const int position = position_in(frame);
  const std::size_t hash =
      (reinterpret_cast<std::uintptr_t>(code) >> 4) + static_cast<std::size_t>(position) * 31;
  Seen& entry = seen[hash % kSeen];
  if (entry.code == code && entry.position == position) return entry.site;
  const Site* site = site_of(code, PyFrame_GetLineNumber(frame));
  PyObject* old = entry.code;
  entry = {owned.inc_ref().ptr(), position, site};
  Py_XDECREF(old);
  return site;
}

}  // namespace

Where python_call_site() {
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
  static std::size_t bytes = 0;
  auto at = texts.find(text);
  if (at == texts.end()) {
    if (bytes > kMostBytes) return "op";
    at = texts.emplace(text).first;
    bytes += text.size() + sizeof(std::string) + 4 * sizeof(void*);  // the text and the set's node for it
  }
  return at->c_str();
}

const char* interned(nb::handle text) { return interned(utf8_of(text)); }

}  // namespace heddle::python
