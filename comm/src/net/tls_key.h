// Keys as TLS wants them, and the names by which people tell them apart.
#pragma once

#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace heddle::comm_detail {

using TlsKey = std::shared_ptr<evp_pkey_st>;
using Certificate = std::shared_ptr<x509_st>;

// Ed25519: there is nothing to choose, and its signatures need no random numbers.
TlsKey new_tls_key();
std::string to_pem(const TlsKey& key);
// Null: `text` holds no private key, or one with a password.
TlsKey tls_key_from(const std::string& text);

// "sha256:" and the hash of the public key (SubjectPublicKeyInfo) in 64 hexadecimal digits.
std::string fingerprint_of(evp_pkey_st* key);
bool is_fingerprint(const std::string& text);

// TLS shows keys in certificates. Nobody vouches for this one, and nothing in it counts but the key.
Certificate certificate_of(const TlsKey& key);

// What OpenSSL last complained of, in words.
std::string last_tls_error();

}  // namespace heddle::comm_detail
