#include "http_client.h"

#include <memory>
#include <stdexcept>

#include <curl/curl.h>

namespace heddle::tool {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

struct EasyCleanup {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

// Initialises libcurl. The object must be made before this process has other threads.
struct Library {
  Library() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw std::runtime_error("libcurl cannot be used");
  }
  ~Library() { curl_global_cleanup(); }
};

// libcurl's write callback: returning another number than size * count ends the transfer.
std::size_t append(char* data, std::size_t size, std::size_t count, void* result) {
  auto& text = *static_cast<std::string*>(result);
  if (size * count > kMostBytes - text.size()) return 0;
  try {
    text.append(data, size * count);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return size * count;
}

std::string url_of(const std::string& address, const std::string& path) {
  const bool whole = address.starts_with("http://") || address.starts_with("https://");
  return whole ? address : "http://" + address + path;
}

}  // namespace

HttpAnswer http_get(const std::string& address, const std::string& path, std::chrono::milliseconds timeout) {
  const Library library;
  const std::unique_ptr<CURL, EasyCleanup> handle(curl_easy_init());
  if (!handle) throw std::runtime_error("libcurl cannot be used");
  const std::string url = url_of(address, path);
  char why[CURL_ERROR_SIZE] = "";
  HttpAnswer answer;
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_PROXY, "");  // no proxy: servers are in the local network
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &answer.text);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK) throw std::runtime_error(url + ": " + (why[0] ? why : curl_easy_strerror(code)));
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace heddle::tool
