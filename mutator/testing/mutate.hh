#pragma once
// Captures made by hand, and what mutating them yields, for the tests of `mutate`.

#include "core/trace/feed.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/pipeline/pipeline.hh"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator::test {

using trace::test::Buffer;

struct TimedPacket {
    Buffer bytes; ///< raw IP
    Nanoseconds time = 0;
};

inline constexpr Nanoseconds kBegin = 1'700'000'000 * kSecond;

inline void write_capture(const std::string& path, const std::vector<TimedPacket>& packets) {
    trace::test::PcapFile file(101, true);
    for (const TimedPacket& packet : packets) {
        file.add(packet.bytes, packet.time);
    }
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.bytes().data()),
               static_cast<std::streamsize>(file.bytes().size()));
}

/// All of a query that a trace has, as one line.
inline std::string line_of(Nanoseconds time, const Endpoint& source, const Endpoint& destination,
                           Transport transport, std::uint64_t connection, Bytes message) {
    std::string line = fmt::format("{} {} {} {} {} ", time, source.text(), destination.text(),
                                   transport_name(transport), connection);
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (const std::uint8_t byte : message) {
        line += {kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
    return line + (message.empty() ? "close" : "");
}

using Lines = std::vector<std::string>;

/// What one trace has: queries and closes.
inline Lines read_lines(const std::string& path) {
    trace::test::Reader reader(path, {.closes = true});
    Lines lines;
    for (Query m; reader.next(m);) {
        if (!m.is_response()) {
            lines.push_back(
                line_of(m.time, m.source, m.destination, m.transport, m.connection, m.message));
        }
    }
    return lines;
}

inline trace::FeedOptions feed_options(std::vector<std::string> paths, unsigned threads) {
    return {.paths = std::move(paths), .reader = {.closes = true}, .threads = threads};
}

/// What a feed for so many threads yields.
inline Lines merged_lines(trace::Feed& feed, unsigned threads) {
    Lines lines;
    const auto collect = [&lines](BatchJob& job) {
        for (const Query& query : job.batch.queries) {
            lines.push_back(line_of(query.time, query.source, query.destination, query.transport,
                                    query.connection, query.message));
        }
        return false;
    };
    Pipeline(feed, {collect}, threads).run();
    return lines;
}

/// The same of files.
inline Lines merged_lines(const std::vector<std::string>& paths, unsigned threads) {
    trace::Feed feed(feed_options(paths, threads));
    return merged_lines(feed, threads);
}

} // namespace reprise::mutator::test
