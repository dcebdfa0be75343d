// What the parser of the command line cannot check.
#include "controller/generator.hh"
#include "controller/options.hh"
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/tree/tls.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>
#include <openssl/types.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <string>
#include <system_error>

namespace reprise::controller {
namespace {

void demand(bool good, const std::string& what) {
    if (!good) {
        throw UsageError(what);
    }
}

void validate_generator(const Options& options) {
    if (options.generate.empty()) {
        demand(!options.trace.empty(), "no TRACE; give a capture, or --generate NAME");
        return;
    }
    demand(options.trace.empty(), "TRACE and --generate exclude each other; give one of them");
    demand(
        Question::parse(options.generate).has_value(),
        fmt::format("--generate {}: not NAME[/TYPE], e.g. www.example.com/AAAA", options.generate));
    demand(options.generate_sources > 0 && options.generate_sources <= kMostGenerated,
           fmt::format("--generate-sources: must be 1 to {}", kMostGenerated));
    const Settings& replay = options.replay;
    demand(replay.rate > 0 || replay.fast,
           "--generate has no times of its own; give replay.rate or replay.fast");
    demand(replay.limit > 0 || replay.duration_s > 0,
           "--generate never ends; give replay.limit or replay.duration_s");
    demand(options.rules.rules.empty(), "--rules change a trace, not what --generate asks; leave "
                                        "one of them out");
    demand(replay.loop == 1 && replay.from.empty() && replay.until.empty() &&
               !replay.collapse_retransmits,
           "--generate goes without replay.loop, replay.from, replay.until and "
           "replay.collapse_retransmits; leave them out");
}

/// A replay is a load test, and its target may be somebody else's.
void validate_targets(const Options& options) {
    const auto check = [&](const char* option, const std::string& text, const IpAddress& address) {
        demand(
            options.allow_public || !address.is_public(),
            fmt::format("{} {}: a public address; replays go to private, loopback or benchmark "
                        "addresses only (198.18.0.0/15, fd00::/8) unless --allow-public is given",
                        option, text));
    };
    for (const std::string& text : options.servers) {
        const Servers found = parse_servers({text}, options.server_port);
        check("--server", text, (found.v4 ? found.v4 : found.v6).value_or(Endpoint{}).address);
    }
    for (const Endpoint& peer : peers_of(options.replay, options.server_port)) {
        check("replay.peers", peer.address.text(), peer.address);
    }
}

/// Whether OpenSSL knows the groups. Queriers have the same OpenSSL, or say so themselves.
void validate_groups(const std::string& groups) {
    const std::unique_ptr<SSL_CTX, tree::TlsDeleter> context(SSL_CTX_new(TLS_client_method()));
    demand(groups.empty() || SSL_CTX_set1_groups_list(context.get(), groups.c_str()) == 1,
           fmt::format("tls.groups {}: OpenSSL does not know them all; give e.g. X25519:P-256",
                       groups));
}

/// The server answers the trace's own addresses, which are other people's.
void validate_source_mode(const Options& options) {
    const std::string& mode = options.replay.source_mode;
    demand((mode != "addresses" && mode != "packet") || options.confirm_return_path,
           fmt::format(
               "replay.source_mode {}: the server's answers to the trace's addresses might leave "
               "the testbed; route them back to the client host or load a guard, and give "
               "--confirm-return-path",
               mode));
}

} // namespace

void validate(const Options& options) {
    check(options.replay);
    demand(options.server_port > 0, "--server-port: must be 1 to 65535");
    validate_targets(options);
    validate_source_mode(options);
    validate_generator(options);
    read_authorities(options.replay.tls.ca);
    validate_groups(options.replay.tls.groups);
    demand(options.replay.loop == 1 || options.check == "options" || !options.generate.empty() ||
               std::filesystem::is_regular_file(options.trace),
           fmt::format("replay.loop: {} cannot be read twice; give a file", options.trace));
}

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
