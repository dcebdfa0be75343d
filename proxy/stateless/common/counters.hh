#pragma once
// What a front has counted, and the form in which it tells of it.

#include "core/base/clock.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/common/reasons.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::proxy {

using Reason = PromotionReason;

/// As in statistics, in the order of the enumeration.
inline constexpr std::array<std::string_view, kReasons> kReasonNames{
    "split",    "pipelined", "segmented", "fin",    "opcode", "flags",     "question",
    "transfer", "tsig",      "cookie",    "ecs",    "option", "truncated", "long",
    "opt",      "later",     "full",      "reused", "window"};

using ReasonCounts = std::array<std::uint64_t, kReasons>;

/// Counts since the start, of segments unless said otherwise.
struct Counters {
    std::uint64_t syn = 0;             ///< SYNs taken
    std::uint64_t syn_ack = 0;         ///< sent
    std::uint64_t handshake_ack = 0;   ///< ACKs without data, dropped
    std::uint64_t queries = 0;         ///< passed on over UDP
    std::uint64_t retransmitted = 0;   ///< of them sent again by clients while one was in flight
    std::uint64_t replies = 0;         ///< UDP answers sent on over TCP
    std::uint64_t segments = 0;        ///< that they made
    std::uint64_t fin = 0;             ///< of clients
    std::uint64_t rst = 0;             ///< of clients
    std::uint64_t reset = 0;           ///< RSTs sent
    ReasonCounts promoted{};           ///< connections given to the kernel's TCP, or to a relay
    ReasonCounts not_promoted{};       ///< the same where that is off or impossible
    std::uint64_t refused_cookies = 0; ///< their acknowledgement proves no handshake
    std::uint64_t waiting = 0;   ///< out of order or while a query was in flight; dropped, for the
                                 ///< client to send again
    std::uint64_t evictions = 0; ///< entries pushed out by newer ones
    std::uint64_t expired = 0;   ///< entries that reached the timeout
    std::uint64_t late = 0;      ///< UDP answers whose entry was gone
    std::uint64_t unsent = 0;    ///< packets and UDP queries that the kernel did not take
    std::uint64_t truncated = 0; ///< UDP replies forced to TC
    std::uint64_t malformed = 0; ///< packets that contradict themselves
    std::uint64_t passed = 0;    ///< packets left to the kernel
    // Not counts:
    Nanoseconds in_time = 0;   ///< of the program for packets that come in, where that is timed
    Nanoseconds out_time = 0;  ///< of the one for packets that leave, for the server's replies
    std::uint64_t entries = 0; ///< queries in flight
    std::uint64_t entries_peak = 0;
    std::uint64_t entries_limit = 0;
    Nanoseconds entries_lived = 0; ///< the lives of all entries so far, summed
    std::uint64_t bytes_per_entry = 0;
    std::uint64_t state_bytes = 0;  ///< of the entries in use
    std::uint64_t memory_bytes = 0; ///< taken for entries, used or not
};

/// Counts one more of a reason.
inline void count(ReasonCounts& counts, Reason reason) { ++counts[static_cast<size_t>(reason)]; }

/// The form of --stats: one JSON object, schema 1. `running`: time since the start.
std::string to_json(const Counters& counters, const StatelessOptions& options, Nanoseconds running,
                    double cpu_seconds);

/// "reference" or "bpf".
std::string_view front_name(FrontKind front);

} // namespace reprise::proxy
