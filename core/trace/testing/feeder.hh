#pragma once
// Packets in, ids of messages out: for the tests of fragments and TCP streams.

#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace::test {

/// Stands for a connection's close among the ids.
inline constexpr unsigned kClose = 0x1'0000;

struct Seen {
    unsigned id = 0;
    std::uint64_t connection = 0;
    bool response = false;
    std::string source;
    std::string destination;
    Nanoseconds time = 0;
    size_t size = 0;
};

/// Feeds raw IP packets, one a second of trace time, and keeps what comes out.
class Feeder {
public:
    explicit Feeder(const ReaderOptions& options = {}) : assembler_(options) {}

    std::vector<unsigned> feed(const Buffer& packet) { return feed_at(packet, now_ + kSecond); }

    std::vector<unsigned> feed_at(const Buffer& packet, Nanoseconds time,
                                  std::uint32_t wire_length = 0) {
        now_ = time;
        const auto size = static_cast<std::uint32_t>(packet.size());
        assembler_.feed({.link = LinkType::kRaw,
                         .time = time,
                         .bytes = packet,
                         .wire_length = wire_length == 0 ? size : wire_length});
        return take();
    }

    std::vector<unsigned> finish() {
        assembler_.finish();
        return take();
    }

    [[nodiscard]] const std::vector<Seen>& seen() const { return seen_; }

    [[nodiscard]] std::uint64_t count(Count what) const { return assembler_.tally().get(what); }

    [[nodiscard]] Nanoseconds now() const { return now_; }

private:
    std::vector<unsigned> take() {
        std::vector<unsigned> ids;
        Query query;
        while (assembler_.pop(query)) {
            const unsigned id =
                query.is_close() ? kClose : query.message[0] * 256U + query.message[1];
            ids.push_back(id);
            seen_.push_back({.id = id,
                             .connection = query.connection,
                             .response = query.is_response(),
                             .source = query.source.text(),
                             .destination = query.destination.text(),
                             .time = query.time,
                             .size = query.message.size()});
        }
        return ids;
    }

    Assembler assembler_;
    Nanoseconds now_ = 0;
    std::vector<Seen> seen_;
};

/// Bytes [begin, end) of `whole`.
inline Buffer part(const Buffer& whole, size_t begin, size_t end = SIZE_MAX) {
    return {whole.begin() + static_cast<std::ptrdiff_t>(begin),
            whole.begin() + static_cast<std::ptrdiff_t>(std::min(end, whole.size()))};
}

} // namespace reprise::trace::test
