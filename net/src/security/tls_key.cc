#include "security/tls_key.h"

#include <array>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

constexpr std::string_view kScheme = "sha256:";
constexpr std::size_t kFingerprintDigits = 64;

using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

// Refuses keys with passwords, since ranks have no terminal to enter one at.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

TlsKey new_tls_key() {
  TlsKey key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  if (!key) tls_failed("make a key");
  return key;
}

std::string to_pem(const TlsKey& key) {
  const Memory memory(BIO_new(BIO_s_secmem()), BIO_free);
  if (!memory ||
      PEM_write_bio_PrivateKey(memory.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    tls_failed("write a key");
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(length)};
}

TlsKey tls_key_from(const std::string& text) {
  const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  TlsKey key(memory ? PEM_read_bio_PrivateKey(memory.get(), nullptr, no_password, nullptr) : nullptr,
             EVP_PKEY_free);
  ERR_clear_error();
  if (!key || EVP_PKEY_is_a(key.get(), "ED25519") != 1) return nullptr;
  return key;
}

std::string fingerprint_of(evp_pkey_st* key) {
  unsigned char* der = nullptr;
  const int length = i2d_PUBKEY(key, &der);
  if (length <= 0) tls_failed("read a public key");
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned int size = 0;
  const int hashed =
      EVP_Digest(der, static_cast<std::size_t>(length), hash.data(), &size, EVP_sha256(), nullptr);
  OPENSSL_free(der);
  if (hashed != 1) tls_failed("hash a public key");
  std::string text(kScheme);
  for (unsigned i = 0; i < size; ++i) {
    constexpr const char* kHex = "0123456789abcdef";
    text += kHex[hash[i] / 16];
    text += kHex[hash[i] % 16];
  }
  return text;
}

bool is_fingerprint(const std::string& text) {
  return text.starts_with(kScheme) && text.size() == kScheme.size() + kFingerprintDigits &&
         text.find_first_not_of("0123456789abcdef", kScheme.size()) == std::string::npos;
}

Certificate certificate_of(const TlsKey& key) {
  Certificate certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  const bool made = x && X509_set_version(x, X509_VERSION_3) == 1 &&
                    ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
                    ASN1_TIME_set_string(X509_getm_notBefore(x), "20200101000000Z") == 1 &&
                    ASN1_TIME_set_string(X509_getm_notAfter(x), "99991231235959Z") == 1 &&
                    X509_set_pubkey(x, key.get()) == 1 && X509_sign(x, key.get(), nullptr) > 0;
  if (!made) tls_failed("make a certificate");
  return certificate;
}

void tls_failed(const char* what) {
  throw CommError(std::string("OpenSSL cannot ") + what + ": " + last_tls_error());
}

std::string last_tls_error() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_last_error(), text.data(), text.size());
  return text.data();
}

}  // namespace heddle::net_detail
