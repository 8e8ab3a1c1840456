#include "membership/etcd_client.h"

#include <cerrno>
#include <charconv>
#include <system_error>
#include <unistd.h>

#include <curl/curl.h>

#include "membership/etcd_messages.h"
#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::size_t kMostReplyBytes = 4 << 20;  // most bytes of a reply; etcd's values have 1.5 MiB at most
constexpr int kLookForCancel = 50;                // ms between two checks whether the request is cancelled

std::size_t append(char* data, std::size_t size, std::size_t count, void* result) {
  auto& text = *static_cast<std::string*>(result);
  if (size * count > kMostReplyBytes - text.size()) return 0;
  try {
    text.append(data, size * count);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return size * count;
}

void start_library() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) throw Error("libcurl cannot be used");
}

bool is_url(const std::string& url) {
  for (const std::string scheme : {"http://", "https://"}) {
    if (!url.starts_with(scheme)) continue;
    const std::string rest = url.substr(scheme.size());
    const std::size_t colon = rest.rfind(':');
    int port = 0;
    if (colon == std::string::npos || colon == 0) return false;
    const auto [end, error] = std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), port);
    return error == std::errc() && end == rest.data() + rest.size() && port > 0 && port < 65'536 &&
           rest.find_first_of("/?#@ \t") == std::string::npos;
  }
  return false;
}

}  // namespace

std::vector<std::string> checked_urls(const EtcdOptions& options) {
  const auto refuse = [](const std::string& why) { throw InvalidArgument("etcd: " + why); };
  std::vector<std::string> urls;
  bool plain = false;
  for (std::size_t begin = 0; begin <= options.urls.size();) {
    const std::size_t end = std::min(options.urls.find(',', begin), options.urls.size());
    urls.push_back(options.urls.substr(begin, end - begin));
    if (!is_url(urls.back())) refuse("'" + urls.back() + "': want http://HOST:PORT or https://HOST:PORT");
    plain = plain || urls.back().starts_with("http:");
    begin = end + 1;
  }
  if (options.prefix.empty() || options.prefix.back() == '/')
    refuse("the prefix '" + options.prefix + "': want a name such as /heddle/mine, without a '/' at its end");
  if (plain && !(options.ca + options.certificate + options.key).empty())
    refuse("there are certificates, but not all addresses begin with https://");
  if (options.certificate.empty() != options.key.empty())
    refuse("a certificate needs its key, and a key its certificate");
  if (options.lease < std::chrono::seconds(2)) refuse("the lease is shorter than 2 s");
  for (const std::string& file : {options.ca, options.certificate, options.key}) {
    if (!file.empty() && ::access(file.c_str(), R_OK) != 0)
      refuse("cannot read " + file + ": " + std::generic_category().message(errno));
  }
  return urls;
}

// A request that can be cancelled. Its connection stays open for the next request.
class EtcdClient::Request {
 public:
  Request() : easy_((start_library(), curl_easy_init())), multi_(curl_multi_init()) {
    if (!easy_ || !multi_) throw Error("libcurl cannot be used");
  }
  ~Request() {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Returns the body of a reply with status 200. Throws Error, whose text lacks the address.
  std::string post(const EtcdOptions& options, const std::string& url, const std::string& body,
                   std::chrono::milliseconds limit, const std::atomic<bool>& cancelled) {
    std::string reply;
    char why[CURL_ERROR_SIZE] = "";
    set_up(options, url, body, limit);
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &reply);
    const CURLcode code = perform(cancelled);
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, nullptr);
    if (code != CURLE_OK) throw Error(why[0] ? why : curl_easy_strerror(code));
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) throw Error(text_of(status, reply));
    return reply;
  }

 private:
  void set_up(const EtcdOptions& options, const std::string& url, const std::string& body,
              std::chrono::milliseconds limit) {
    const auto limit_ms = static_cast<long>(limit.count());
    curl_easy_reset(easy_);  // resets the options of the last request, but keeps connections open
    curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy_, CURLOPT_PROXY, "");  // etcd is near; the environment's proxy is for other hosts
    curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, limit_ms);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &append);
    if (!options.ca.empty()) curl_easy_setopt(easy_, CURLOPT_CAINFO, options.ca.c_str());
    if (options.certificate.empty()) return;
    curl_easy_setopt(easy_, CURLOPT_SSLCERT, options.certificate.c_str());
    curl_easy_setopt(easy_, CURLOPT_SSLKEY, options.key.c_str());
  }

  CURLcode perform(const std::atomic<bool>& cancelled) {
    curl_multi_add_handle(multi_, easy_);
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    for (int running = 1; running > 0 && !cancelled.load();) {
      if (curl_multi_perform(multi_, &running) != CURLM_OK) break;
      if (running > 0) curl_multi_poll(multi_, nullptr, 0, kLookForCancel, nullptr);
    }
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi_, easy_);
    return result;
  }

  static std::string text_of(long status, const std::string& reply) {
    std::string text;
    try {
      text = error_from(reply);
    } catch (const MalformedMessage&) {  // the reply is not etcd's
      text = "HTTP status " + std::to_string(status) + "; is it etcd, of version 3.4 or later?";
    }
    return text.empty() ? "HTTP status " + std::to_string(status) : text;
  }

  CURL* const easy_;
  CURLM* const multi_;
};

EtcdClient::EtcdClient(const EtcdOptions& options, std::chrono::milliseconds limit)
    : options_(options), urls_(checked_urls(options)), limit_(limit), request_(std::make_unique<Request>()) {}
EtcdClient::~EtcdClient() = default;

std::string EtcdClient::ask(const std::string& path, const std::string& body) {
  std::string problems;
  for (std::size_t i = 0; i < urls_.size(); ++i) {
    if (cancelled_.load()) throw Error("etcd: the request was cancelled");
    const std::size_t one = (latest_ + i) % urls_.size();
    try {
      std::string reply = request_->post(options_, urls_[one] + path, body, limit_, cancelled_);
      latest_ = one;
      return reply;
    } catch (const Error& error) {
      problems += (problems.empty() ? "etcd " : "; etcd ") + urls_[one] + ": " + error.what();
    }
  }
  // The next request goes to another member first, since the member that has failed may not answer for a
  // while.
  latest_ = (latest_ + 1) % urls_.size();
  throw Error(problems);
}

std::optional<StoreEntry> EtcdClient::get(const std::string& key) {
  return entry_from(ask("/v3/kv/range", get_request(key)));
}

std::optional<std::int64_t> EtcdClient::put_if(const std::vector<StoreCondition>& conditions,
                                               const std::string& key, const std::string& value,
                                               std::int64_t lease) {
  return revision_from(ask("/v3/kv/txn", put_if_request(conditions, key, value, lease)));
}

StoreLease EtcdClient::grant(std::chrono::milliseconds time) {
  return lease_from(ask("/v3/lease/grant", grant_request(std::chrono::ceil<std::chrono::seconds>(time))));
}

std::chrono::milliseconds EtcdClient::renew(std::int64_t lease) {
  return renewed_from(ask("/v3/lease/keepalive", lease_request(lease)));
}

void EtcdClient::revoke(std::int64_t lease) { ask("/v3/lease/revoke", lease_request(lease)); }

}  // namespace heddle::kv_detail
