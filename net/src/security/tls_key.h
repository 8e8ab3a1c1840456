// Keys for TLS, and their fingerprints.
#pragma once

#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace heddle::net_detail {

using TlsKey = std::shared_ptr<evp_pkey_st>;
using Certificate = std::shared_ptr<x509_st>;

// Makes an Ed25519 key. This kind of key has no parameters, and its signatures need no random numbers.
TlsKey new_tls_key();
std::string to_pem(const TlsKey& key);
// Reads a key in PEM. Null: `text` is no private Ed25519 key, or needs a password.
TlsKey tls_key_from(const std::string& text);

// "sha256:" and the hash of the public key (SubjectPublicKeyInfo) in 64 hexadecimal digits.
std::string fingerprint_of(evp_pkey_st* key);
bool is_fingerprint(const std::string& text);

// A self-signed certificate, in which TLS sends the key. Nothing else in the certificate is used.
Certificate certificate_of(const TlsKey& key);

// The message of OpenSSL's last error.
std::string last_tls_error();
// Throws a CommError that says that OpenSSL cannot do `what`.
[[noreturn]] void tls_failed(const char* what);

}  // namespace heddle::net_detail
