#include "controller/controller.hh"
#include "controller/options.hh"
#include "controller/selection.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/base/openssl.hh"
#include "core/base/text.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/losses.hh"
#include "core/tree/fanout.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>
#include <openssl/types.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::controller {
namespace {

constexpr std::uint64_t kEnough = 100'000; ///< messages, a tenth of a second's reading

/// Reads the beginning of what can be played, and takes what follows to be like it: as many queries
/// a second, and seconds a byte of the file. Throws Error where nothing can be played.
std::string look_at_trace(const Options& options, const Servers& servers) {
    Options once = options;
    once.replay.loop = 1;
    TraceFeed feed(once, servers);
    Query query;
    if (!feed.next(query)) {
        throw Error(no_queries(options, feed.state()));
    }
    feed.stop_in(kEnough);
    const double before = feed.share_read();
    const auto first = static_cast<double>(query.time);
    double span = 0;
    double queries = 0;
    do {
        if (!query.is_close()) {
            span = std::max(span, static_cast<double>(query.time) - first);
            ++queries;
        }
    } while (feed.next(query));
    double times = 1; // by which all is longer than what was read
    if (feed.stopped()) {
        const double read = feed.share_read() - before;
        times = read > 0 ? (1 - before) / read : 0;
        if (const auto until = feed.until(); until && span > 0) {
            times = std::min(times, (static_cast<double>(*until) - first) / span);
        }
    }
    return fmt::format("extent queries={:.0f} span_s={:.3f}\n", queries * times,
                       span * times / 1e9);
}

void validate_generator(const Options& options) {
    if (options.generate.empty()) {
        demand(!options.trace.empty(), "no TRACE; give a capture, or --generate NAME");
        return;
    }
    demand(options.trace.empty(), "TRACE and --generate exclude each other; give one of them");
    const Generator known(options, {}); // throws
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
    const TlsContext context(SSL_CTX_new(TLS_client_method()));
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

/// Largest file read: several times the bundle of all public authorities, and well below the
/// largest frame of the tree.
constexpr size_t kLargest = 2UL << 20U;

using Bio = TlsOwner<BIO>;
using Certificate = TlsOwner<X509>;

std::string read_file(const std::string& path) {
    std::string text(kLargest + 1, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    demand(file.is_open() && !file.bad(),
           fmt::format("tls.ca {}: {}; check the path and its permissions", path,
                       std::generic_category().message(errno)));
    return text;
}

} // namespace

std::string no_queries(const Options& options, const FeedState& feed) {
    const Settings& replay = options.replay;
    if (feed.beyond && feed.skipped.of(Skip::kFrom) == feed.read) {
        return fmt::format(
            "no query of {} lies {}{}{}before replay.until {}; change them, or leave them out",
            options.trace, replay.from.empty() ? "" : "at or after replay.from ", replay.from,
            replay.from.empty() ? "" : " and ", replay.until);
    }
    if (feed.read > 0 && feed.skipped.of(Skip::kFrom) == feed.read) {
        return fmt::format(
            "no query of {} lies at or after replay.from {}; change it, or leave it out",
            options.trace, replay.from);
    }
    if (feed.read > 0) {
        const std::string lost =
            trace::losses_suffix(feed.counters, feed.of_trace() + feed.responses);
        std::vector<std::string> reasons;
        for (const auto& [reason, count] : feed.skipped.named()) {
            reasons.push_back(fmt::format("{} {}", reason, count));
        }
        return fmt::format(
            "none of the {} queries of {} can be sent ({}{}); give the server an address of their "
            "family, another replay.transport, replay.all_opcodes, or leave out what skips them",
            feed.read, options.trace.empty() ? feed.description : options.trace,
            joined(reasons, ", "), lost);
    }
    if (feed.of_trace() > 0) {
        return fmt::format("the rules leave none of the {} queries of {}; change them",
                           feed.of_trace(), options.trace);
    }
    return fmt::format(
        "no DNS queries to replay in {} ({} packets, {} queries, {} responses{}{}{}); "
        "is it a DNS capture, and its port one of replay.ports?",
        options.trace, feed.packets, feed.read, feed.responses, feed.trouble.empty() ? "" : "; ",
        feed.trouble, trace::unread_suffix(feed.counters, feed.responses));
}

std::string check(const Options& options) {
    tree::parse_peers("--distributor", options.distributors);
    const Servers servers = parse_servers(options.servers, options.server_port);
    const rules::Chain rules(options.rules); // throws
    if (options.check == "trace" && options.generate.empty()) {
        return look_at_trace(options, servers);
    }
    return "";
}

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

std::string read_authorities(const std::string& path) {
    if (path.empty()) {
        return {};
    }
    const std::string text = read_file(path);
    const Bio in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    const Bio out(BIO_new(BIO_s_mem()));
    while (const Certificate each{PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)}) {
        PEM_write_bio_X509(out.get(), each.get());
    }
    const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    char* data = nullptr;
    const auto size = static_cast<size_t>(BIO_get_mem_data(out.get(), &data));
    std::string pem(data, size);
    demand(
        !pem.empty() && at_end && text.size() <= kLargest,
        fmt::format("tls.ca {}: not certificates in PEM, of at most 2 MiB; give a file with BEGIN "
                    "CERTIFICATE lines, or leave it out for the system's authorities",
                    path));
    return pem;
}

} // namespace reprise::controller
