#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <typeinfo>

#include <heddle/call_site.h>
#include <heddle/error.h>

namespace heddle {
namespace {

constexpr const char* kCalledAt = "; called at ";

std::string join(const std::vector<ErrorReport>& reports, std::size_t more) {
  const std::size_t all = reports.size() + more;
  std::string text = std::to_string(all) + (all == 1 ? " op failed:" : " ops failed:");
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < reports.size() && i < kShown; ++i)
    text.append("\n").append(reports[i].to_string());
  if (all > kShown) text += "\n... and " + std::to_string(all - kShown) + " more";
  if (more > 0) text += ", " + std::to_string(more) + " of which were counted but not kept";
  return text;
}

std::string current_type_name() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type) return "unknown exception";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                              std::free);
  return "an exception of type " + std::string(status == 0 ? name.get() : type->name());
}

std::string call_site_text(const std::source_location& where) {
  if (where.line() == 0) return "";
  return kCalledAt + (where.file_name() + (":" + std::to_string(where.line())));
}

}  // namespace

std::string with_call_site(const std::string& message) {
  return message + call_site_text(CallSite::of_error());
}

std::string without_call_site(const std::string& text) {
  const std::size_t place = text.rfind(kCalledAt), colon = text.rfind(':');
  const bool has_place = place != std::string::npos && colon > place && colon + 1 < text.size() &&
                         text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  return has_place ? text.substr(0, place) : text;
}

InvalidArgument::InvalidArgument(const std::string& message)
    : InvalidArgument(message, CallSite::of_error()) {}

InvalidArgument::InvalidArgument(const std::string& message, std::source_location where)
    : Error(message + call_site_text(where)), length_(message.size()), where_(where) {}

std::string ErrorReport::message() const {
  if (!exception) return "no error";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    std::string text = error.what();
    const std::string place = call_site_text(where);
    if (!place.empty() && text.ends_with(place)) text.resize(text.size() - place.size());
    return text;
  } catch (...) {
    return current_type_name();
  }
}

std::string ErrorReport::to_string() const {
  if (!exception) return "no error";
  std::string text = "op '" + op + "'";
  if (where.line() > 0)
    text.append(" pushed at ").append(where.file_name()).append(":" + std::to_string(where.line()));
  text += " failed: " + message();
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < path.size() && i < kShown; ++i) text += "\n  skipped because of it: " + path[i];
  if (path.size() > kShown) text += "\n  ... and " + std::to_string(path.size() - kShown) + " more";
  return text;
}

AggregateError::AggregateError(std::vector<ErrorReport> reports, std::size_t more)
    : Error(join(reports, more)), reports_(std::move(reports)), more_(more) {}

}  // namespace heddle
