#include "controller/selection.hh"

#include "controller/options.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace reprise::controller {
namespace {

constexpr std::array<const char*, static_cast<size_t>(Skip::kCount)> kNames{
    "none",           "notify",        "update",          "no_ipv4_server",
    "no_ipv6_server", "source_prefix", "source_unusable", "sample",
    "from",           "retransmit",    "transport",       "duration"};

/// Sources that no answer can ever be routed to: unspecified, loopback, multicast and reserved
/// ones, IPv6 link-local (it needs a zone) and IPv4-mapped ones (the kernel drops them); the
/// server's and its peers' own.
std::vector<std::string> unusable_sources(const Options& options, const Servers& servers) {
    std::vector<std::string> sources{"0.0.0.0/8",   "127.0.0.0/8", "224.0.0.0/4",
                                     "240.0.0.0/4", "::/128",      "::1/128",
                                     "ff00::/8",    "fe80::/10",   "::ffff:0:0/96"};
    for (const auto& server : {servers.v4, servers.v6}) {
        if (server) {
            sources.push_back(server->address.text());
        }
    }
    for (const Endpoint& peer : peers_of(options.replay, options.server_port)) {
        sources.push_back(peer.address.text());
    }
    return sources;
}

} // namespace

const char* skip_name(Skip reason) { return kNames.at(static_cast<size_t>(reason)); }

void Selection::add(Skip reason, const std::string& kind, const std::string& key,
                    std::vector<std::string> values) {
    std::vector<rules::Argument> arguments{{.key = key, .values = std::move(values), .place = ""}};
    if (reason == Skip::kSample) {
        arguments.push_back({.key = "by", .values = {"source"}, .place = ""});
    }
    rules::RuleSet set{.settings = {.sees_closes = false}, .rules = {}};
    set.rules.emplace_back(kind, skip_name(reason), std::move(arguments));
    rules_.push_back({.reason = reason, .set = std::move(set), .rule = nullptr});
}

Selection::Selection(const Options& options, const Servers& servers) {
    if (!options.replay.all_opcodes) {
        add(Skip::kNotify, "drop", "where.opcode", {"NOTIFY"});
        add(Skip::kUpdate, "drop", "where.opcode", {"UPDATE"});
    }
    add_of_sources(options, servers);
    if (!transport_of(options.replay)) {
        add(Skip::kTransport, "drop", "where.transport", transport_names(false));
    }
    if (options.replay.collapse_retransmits) {
        add(Skip::kRetransmit, "collapse", "timeout", {fmt::to_string(options.replay.timeout_s)});
    }
    restart();
}

void Selection::add_of_sources(const Options& options, const Servers& servers) {
    if (!servers.v4) {
        add(Skip::kNoIpv4Server, "drop", "where.source", {"0.0.0.0/0"});
    }
    if (!servers.v6) {
        add(Skip::kNoIpv6Server, "drop", "where.source", {"::/0"});
    }
    if (const auto prefixes = skipped_prefixes(options.replay); !prefixes.empty()) {
        std::vector<std::string> texts;
        texts.reserve(prefixes.size());
        for (const Prefix& one : prefixes) {
            texts.push_back(Prefix{masked(one.address, one.bits), one.bits}.text());
        }
        add(Skip::kSourcePrefix, "drop", "where.source", std::move(texts));
    }
    const std::string& mode = options.replay.source_mode;
    if (mode == "addresses" || mode == "packet") { // else the server sees others than the trace's
        add(Skip::kSourceUnusable, "drop", "where.source", unusable_sources(options, servers));
    }
    if (const double share = share_of(options.replay); share < 1) {
        add(Skip::kSample, "keep", "share", {fmt::to_string(share * 100)});
    }
}

Skip Selection::judge(Query& query) {
    for (const NamedRule& one : rules_) {
        if (!one.rule->keeps(query, batch_)) {
            return one.reason;
        }
    }
    return Skip::kNone;
}

void Selection::restart() {
    for (NamedRule& one : rules_) {
        one.rule = std::move(rules::make_rules(one.set).front());
    }
}

std::uint64_t SkipCounts::sum() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::map<std::string, std::uint64_t> SkipCounts::named() const {
    std::map<std::string, std::uint64_t> out;
    for (size_t i = 0; i < counts_.size(); ++i) {
        if (counts_.at(i) > 0) {
            out[kNames.at(i)] = counts_.at(i);
        }
    }
    return out;
}

} // namespace reprise::controller
