#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <heddle/c/core.h>
#include <heddle/c/status.h>
#include <heddle/log.h>

#include "base/fork.h"
#include "c/boundary.h"

using namespace heddle;
using namespace heddle::c;

namespace {

// Interned texts and sites live as long as the process.
struct Interned {
  detail::ForkMutex mutex;  // guards all below
  std::set<std::string, std::less<>> texts;
  std::map<std::tuple<const char*, const char*, std::uint32_t>, heddle_site> sites;

  const char* text(const char* of) { return texts.emplace(of ? of : "").first->c_str(); }
};

Interned& interned_texts() {
  static Interned& immortal = *new Interned;
  return immortal;
}

const char* status_name(heddle_status status) {
  static constexpr const char* kNames[] = {"HEDDLE_OK",
                                           "HEDDLE_INVALID_ARGUMENT",
                                           "HEDDLE_BAD_HANDLE",
                                           "HEDDLE_OUT_OF_MEMORY",
                                           "HEDDLE_FAILED",
                                           "HEDDLE_CANCELLED",
                                           "HEDDLE_OVERDUE",
                                           "HEDDLE_DROPPED",
                                           "HEDDLE_WOULD_DEADLOCK",
                                           "HEDDLE_TIMEOUT",
                                           "HEDDLE_SEVERAL",
                                           "HEDDLE_UNDECLARED_ACCESS"};
  if (status >= HEDDLE_USER) return "HEDDLE_USER";
  const auto index = static_cast<std::uint32_t>(status);
  if (index < std::size(kNames)) return kNames[index];
  const char* const name = abi_extension() ? abi_extension()->name_of_status(status) : nullptr;
  return name ? name : "an unknown status";
}

void append(std::string& text, const ErrorData& error, const std::string& indent) {
  text += indent;
  if (!error.op.empty()) text += "op '" + error.op + "'";
  if (!error.op.empty() && error.line > 0)
    text += " pushed at " + error.file + ":" + std::to_string(error.line);
  text += error.op.empty() ? error.message : " failed: " + error.message;
  if (error.op.empty() && error.line > 0)
    text += "; called at " + error.file + ":" + std::to_string(error.line);
  for (const std::string& step : error.skipped) text += "\n" + indent + "  skipped because of it: " + step;
}

// The text of an error and its causes. Each cause is indented by its depth, up to kDeepest. Without
// recursion, since a chain of causes may be of any length.
std::string text_of(const ErrorData& error) {
  constexpr std::size_t kMostCauses = 100, kDeepest = 16;
  std::string text;
  append(text, error, "");
  // Causes that are still to be shown, with their depths; the last one is shown next.
  std::vector<std::pair<const ErrorData*, std::size_t>> left;
  const auto add_causes = [&left](const ErrorData& of, std::size_t depth) {
    for (auto cause = of.causes.rbegin(); cause != of.causes.rend(); ++cause)
      left.emplace_back((*cause)->value.get(), depth);
  };
  add_causes(error, 1);
  for (std::size_t shown = 0; !left.empty(); ++shown) {
    if (shown == kMostCauses) return text + "\n... and more causes";
    const auto [cause, depth] = left.back();
    left.pop_back();
    append(text += "\n", *cause, std::string(2 * std::min(depth, kDeepest), ' '));
    add_causes(*cause, depth + 1);
  }
  return text;
}

}  // namespace

heddle_status heddle_status_name(heddle_status status, const char** name) {
  return guarded(nullptr, [&] {
    check_out(name, "heddle_status_name", "name");
    *name = status_name(status);
  });
}

heddle_status heddle_error_describe(const heddle_error* error, heddle_error_info* info) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_error> of(error, "heddle_error_describe");
    check_struct(info, "heddle_error_describe", "heddle_error_info");
    const ErrorData& data = **of;
    info->code = data.code;
    info->line = data.line;
    info->message = data.message.c_str();
    info->op = data.op.c_str();
    info->file = data.file.c_str();
    info->skipped = data.skipped_texts.data();
    info->skipped_count = data.skipped_texts.size();
    info->cause_count = data.causes.size();
  });
}

heddle_status heddle_error_cause(const heddle_error* error, size_t index, const heddle_error** cause) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_error> of(error, "heddle_error_cause");
    check_out(cause, "heddle_error_cause", "cause");
    const std::vector<heddle_error*>& causes = (*of)->causes;
    if (index >= causes.size())
      throw InvalidArgument("heddle_error_cause: index " + std::to_string(index) + " of " +
                            std::to_string(causes.size()) + " causes");
    *cause = causes[index];
  });
}

heddle_status heddle_error_to_text(const heddle_error* error, char** text) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_error> of(error, "heddle_error_to_text");
    check_out(text, "heddle_error_to_text", "text");
    *text = make_text(text_of(**of));
  });
}

heddle_status heddle_error_create(heddle_status code, const char* message, const heddle_error* cause,
                                  heddle_error** created) {
  return guarded(nullptr, [&] {
    constexpr const char* kCall = "heddle_error_create";
    if (!message) throw_null(kCall, "message");
    check_out(created, kCall, "created");
    if (code == HEDDLE_OK) throw InvalidArgument(std::string(kCall) + ": HEDDLE_OK is no error");
    auto data = std::make_shared<ErrorData>();
    data->code = code;
    data->message = message;
    if (cause) {
      data->causes.push_back(nullptr);
      data->causes.back() = make_handle<heddle_error>(*HandleAccess<heddle_error>(cause, kCall));
    }
    *created = make_handle<heddle_error>(std::move(data));
  });
}

heddle_status heddle_error_copy(const heddle_error* error, heddle_error** copy) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_error> of(error, "heddle_error_copy");
    check_out(copy, "heddle_error_copy", "copy");
    *copy = make_handle<heddle_error>(*of);
  });
}

heddle_status heddle_error_destroy(heddle_error* error) {
  return guarded(nullptr, [&] {
    if (error && !is_static(error)) take(error, "heddle_error_destroy");
  });
}

heddle_status heddle_text_destroy(char* text) {
  return guarded(nullptr, [&] {
    if (!text) return;
    if (!checked) return std::free(text);
    registry::remove(text, Kind::text, "heddle_text_destroy", [] {});
    registry::free_late(text, std::free);
  });
}

heddle_status heddle_intern(const char* text, const char** interned) {
  return guarded(nullptr, [&] {
    if (!text) throw_null("heddle_intern", "text");
    check_out(interned, "heddle_intern", "interned");
    Interned& all = interned_texts();
    const std::lock_guard guard(all.mutex);
    *interned = all.text(text);
  });
}

heddle_status heddle_site_intern(const char* file, const char* function, uint32_t line,
                                 const heddle_site** site, heddle_error** error) {
  return guarded(error, [&] {
    check_out(site, "heddle_site_intern", "site");
    Interned& all = interned_texts();
    const std::lock_guard guard(all.mutex);
    const char* const own_file = all.text(file);
    const char* const own_function = all.text(function);
    *site =
        &all.sites.try_emplace({own_file, own_function, line}, heddle_site{own_file, own_function, line, 0})
             .first->second;
  });
}

heddle_status heddle_build_describe(heddle_build* build) {
  return guarded(nullptr, [&] {
    check_struct(build, "heddle_build_describe", "heddle_build");
    *build = {sizeof *build,         HEDDLE_VERSION_MAJOR,  HEDDLE_VERSION_MINOR, HEDDLE_VERSION_PATCH,
              HEDDLE_BUILD_TBB,      HEDDLE_BUILD_CUDA,     checked ? 1 : 0,      HEDDLE_BUILD_VERSION,
              HEDDLE_BUILD_COMPILER, HEDDLE_BUILD_SANITIZER};
  });
}

heddle_status heddle_log_set(heddle_log_fn log, void* ctx, heddle_destroy_fn destroy, heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    if (!log) return set_log({});
    set_log([log, own = std::make_shared<Owned>(std::move(owned))](std::string_view text) {
      log(own->ctx(), std::string(text).c_str());
    });
  });
}
