#include "controller/authorities.hh"

#include "core/base/error.hh"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/types.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <ios>
#include <memory>
#include <string>
#include <system_error>

namespace reprise::controller {
namespace {

/// Largest file read: several times the bundle of all public authorities, and well below the
/// largest frame of the tree.
constexpr size_t kLargest = 2UL << 20U;

struct BioDeleter {
    void operator()(BIO* bio) const { BIO_free(bio); }
};

struct CertificateDeleter {
    void operator()(X509* certificate) const { X509_free(certificate); }
};

using Bio = std::unique_ptr<BIO, BioDeleter>;
using Certificate = std::unique_ptr<X509, CertificateDeleter>;

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text;
    char byte = 0;
    while (text.size() <= kLargest && file.get(byte)) {
        text.push_back(byte);
    }
    if (!file.is_open() || file.bad()) {
        throw UsageError(fmt::format("tls.ca {}: {}; check the path and its permissions", path,
                                     std::generic_category().message(errno)));
    }
    return text;
}

std::string pem_of(BIO* bio) {
    char* data = nullptr;
    const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &data));
    return {data, size};
}

} // namespace

std::string read_authorities(const std::string& path) {
    if (path.empty()) {
        return {};
    }
    const std::string text = read_file(path);
    const Bio in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    const Bio out(BIO_new(BIO_s_mem()));
    const auto next = [&] {
        return Certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    };
    for (Certificate each = next(); each; each = next()) {
        PEM_write_bio_X509(out.get(), each.get());
    }
    const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    std::string pem = pem_of(out.get());
    if (pem.empty() || !at_end || text.size() > kLargest) {
        throw UsageError(fmt::format(
            "tls.ca {}: not certificates in PEM, of at most 2 MiB; give a file with BEGIN "
            "CERTIFICATE lines, or leave it out for the system's authorities",
            path));
    }
    return pem;
}

} // namespace reprise::controller
