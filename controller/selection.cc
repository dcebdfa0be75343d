#include "controller/selection.hh"

#include "controller/options.hh"
#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/prefix.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

constexpr std::uint8_t kOpcodeNotify = 4;
constexpr std::uint8_t kOpcodeUpdate = 5;
constexpr std::uint64_t kSampleKey = 0x73616d706c653031; // any constant, the same for ever

constexpr std::array<const char*, static_cast<size_t>(Skip::kCount)> kNames{
    "none",           "notify",        "update",          "no_ipv4_server",
    "no_ipv6_server", "source_prefix", "source_unusable", "sample",
    "from",           "retransmit",    "transport",       "duration"};

std::vector<IpAddress> own_addresses(const Options& options, const Servers& servers) {
    std::vector<IpAddress> own;
    for (const auto& server : {servers.v4, servers.v6}) {
        if (server) {
            own.push_back(server->address);
        }
    }
    for (const Endpoint& peer : peers_of(options.replay, options.server_port)) {
        own.push_back(peer.address);
    }
    return own;
}

/// Queriers speak all transports but these.
bool is_played(Transport transport) {
    return transport != Transport::kQuic && transport != Transport::kHttps;
}

} // namespace

const char* skip_name(Skip reason) { return kNames.at(static_cast<size_t>(reason)); }

bool is_unusable(const IpAddress& source) {
    static const std::array kUnusable{
        known_prefix("0.0.0.0/8"),   known_prefix("127.0.0.0/8"), known_prefix("224.0.0.0/4"),
        known_prefix("240.0.0.0/4"), known_prefix("::/128"),      known_prefix("::1/128"),
        known_prefix("ff00::/8"),    known_prefix("fe80::/10"),   known_prefix("::ffff:0:0/96")};
    return any_holds(kUnusable, source);
}

bool in_sample(const IpAddress& source, double share) {
    const std::uint64_t hashed =
        XXH3_64bits_withSeed(source.bytes.data(), source.size(), kSampleKey);
    return static_cast<double>(hashed >> 11U) * 0x1p-53 < share;
}

Selection::Selection(const Options& options, const Servers& servers)
    : servers_(servers), all_opcodes_(options.replay.all_opcodes),
      all_usable_(options.replay.source_mode == "ports" || options.replay.source_mode == "mapped"),
      skipped_(skipped_prefixes(options.replay)), own_(own_addresses(options, servers)),
      share_(share_of(options.replay)) {
    traced_transport_ = !transport_of(options.replay).has_value();
    if (options.replay.collapse_retransmits) {
        retransmits_.emplace(static_cast<Nanoseconds>(options.replay.timeout_s * 1e9));
    }
}

Skip Selection::judge(const Query& query) {
    const auto header = parse_header(query.message);
    const std::uint8_t opcode = header ? header->opcode() : 0;
    if (!all_opcodes_ && (opcode == kOpcodeNotify || opcode == kOpcodeUpdate)) {
        return opcode == kOpcodeNotify ? Skip::kNotify : Skip::kUpdate;
    }
    if (traced_transport_ && !is_played(query.transport)) {
        return Skip::kTransport;
    }
    const Skip reason = judge_source(query.source.address);
    if (reason != Skip::kNone || !retransmits_) {
        return reason;
    }
    const bool repeats =
        retransmits_->repeats(query.time, query.transport, query.source, query.message);
    return repeats ? Skip::kRetransmit : Skip::kNone;
}

Skip Selection::judge_source(const IpAddress& source) const {
    if (source.is_v4() && !servers_.v4) {
        return Skip::kNoIpv4Server;
    }
    if (source.is_v6() && !servers_.v6) {
        return Skip::kNoIpv6Server;
    }
    if (any_holds(skipped_, source)) {
        return Skip::kSourcePrefix;
    }
    if (!all_usable_ && (is_unusable(source) || std::ranges::count(own_, source) > 0)) {
        return Skip::kSourceUnusable;
    }
    return share_ < 1 && !in_sample(source, share_) ? Skip::kSample : Skip::kNone;
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
