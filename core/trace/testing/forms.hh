#pragma once
// For tests of the forms that hold queries: messages of every kind, files of a test's own, and all
// that is read of one.

#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace reprise::trace::test {

/// A query with its message, or a close.
struct OwnQuery {
    Query query;
    Buffer message;

    [[nodiscard]] Query view() const {
        Query out = query;
        out.message = message;
        return out;
    }

    bool operator==(const OwnQuery& other) const {
        const auto facts = [](const Query& q) {
            return std::tuple(q.time, q.source, q.destination, q.connection, q.transport,
                              q.rtt_class, q.idle_class);
        };
        return facts(query) == facts(other.query) && message == other.message;
    }
};

inline OwnQuery own(const Query& query) {
    OwnQuery out{.query = query, .message = {query.message.begin(), query.message.end()}};
    out.query.message = {};
    return out;
}

/// "192.0.2.1:1024" sends `message` at 1475762100.123456789.
inline OwnQuery usual(const Buffer& message) {
    return {.query = {.time = 1'475'762'100'123'456'789,
                      .source = Endpoint::parse("192.0.2.1:1024").value_or(Endpoint{}),
                      .destination = Endpoint::parse("198.51.100.1:53").value_or(Endpoint{}),
                      .message = {}},
            .message = message};
}

/// Usual queries, nearly usual ones and garbage, over all transports and families, and closes.
class QueryMaker {
public:
    explicit QueryMaker(std::uint32_t seed) : random_(seed) {}

    OwnQuery next() {
        OwnQuery out = usual(below(20) == 0 ? Buffer() : message());
        Query& query = out.query;
        query.time = static_cast<std::int64_t>(random_() % 4'000'000'000'000'000'000U) -
                     (below(9) == 0 ? 2'000'000'000'000'000'000 : 0);
        query.transport = static_cast<Transport>(below(6));
        if (out.message.empty() && query.transport == Transport::kUdp) {
            query.transport = Transport::kTcp;
        }
        query.connection = below(2) == 0 ? 0 : random_() >> 16U;
        query.source = endpoint();
        query.destination = endpoint();
        query.rtt_class = static_cast<std::uint16_t>(below(3) == 0 ? random_() : 0);
        query.idle_class = static_cast<std::uint16_t>(below(3) == 0 ? random_() : 0);
        return out;
    }

    /// At least 12 bytes.
    Buffer message() {
        if (below(8) == 0) {
            return bytes(12 + below(100));
        }
        Buffer out = be16(number16()) + be16(flags()) + be16(1) + be16(0) + be16(0);
        const bool opt = below(2) == 0;
        out =
            out + be16(opt ? 1 : 0) + name() + be16(type()) + be16(below(9) == 0 ? number16() : 1);
        out = opt ? out + this->opt() : out;
        return below(4) == 0 ? damaged(out) : out;
    }

    std::uint64_t below(std::uint64_t n) { return random_() % n; }

private:
    unsigned number16() { return static_cast<unsigned>(random_() & 0xffffU); }

    unsigned flags() { return below(3) == 0 ? number16() & 0x7ff0U : 0x0100U; }

    unsigned type() { return below(3) == 0 ? number16() : static_cast<unsigned>(below(70)); }

    Buffer bytes(std::uint64_t size) {
        Buffer out(size);
        for (auto& byte : out) {
            byte = static_cast<std::uint8_t>(random_());
        }
        return out;
    }

    /// Labels of letters, or of any bytes; up to the longest name that there is.
    Buffer name() {
        Buffer out;
        const std::uint64_t most = below(6) == 0 ? 254 : 30;
        while (out.size() + 2 < most && below(5) != 0) {
            const std::uint64_t size =
                1 + below(std::min<std::uint64_t>(63, most - out.size() - 1));
            Buffer label = bytes(size);
            if (below(2) == 0) {
                for (auto& byte : label) {
                    byte = static_cast<std::uint8_t>('a' + byte % 26);
                }
            }
            out = out + Buffer{static_cast<std::uint8_t>(size)} + label;
        }
        return out + Buffer{0};
    }

    Buffer opt() {
        Buffer options;
        while (below(3) == 0) {
            const std::uint64_t size = below(20);
            options = options +
                      be16(below(2) == 0 ? static_cast<unsigned>(below(16)) : number16()) +
                      be16(static_cast<unsigned>(size)) + bytes(size);
        }
        const std::uint32_t ttl = (below(2) == 0 ? 0x8000U : 0U) |
                                  (below(9) == 0 ? static_cast<std::uint32_t>(random_()) : 0U);
        return Buffer{0} + be16(41) + be16(number16()) + be32(ttl) +
               be16(static_cast<unsigned>(options.size())) + options;
    }

    /// With a byte changed, cut, or lengthened; at least a header is left.
    Buffer damaged(Buffer message) {
        const std::uint64_t way = below(4);
        if (way == 0) {
            return message + bytes(1 + below(9));
        }
        if (way == 1) {
            message.resize(12 + below(message.size() - 12 + 1));
            return message;
        }
        message[below(message.size())] = static_cast<std::uint8_t>(random_());
        return message;
    }

    Endpoint endpoint() {
        const Buffer raw = bytes(16);
        const auto port = static_cast<std::uint16_t>(number16());
        return {.address = below(2) == 0 ? IpAddress::v4(raw.data()) : IpAddress::v6(raw.data()),
                .port = port};
    }

    std::mt19937_64 random_;
};

inline std::vector<OwnQuery> queries(unsigned count, std::uint32_t seed = 7) {
    QueryMaker maker(seed);
    std::vector<OwnQuery> out(count);
    std::ranges::generate(out, [&maker] { return maker.next(); });
    return out;
}

inline std::string as_text(const std::vector<OwnQuery>& queries) {
    std::string out;
    append_text_header(out);
    for (const OwnQuery& query : queries) {
        append_text_row(out, query.view());
    }
    return out;
}

inline std::string as_stream(const std::vector<OwnQuery>& queries) {
    std::string out;
    const auto encoder = make_stream_encoder();
    encoder->begin(out);
    for (const OwnQuery& query : queries) {
        encoder->encode(query.view(), out);
    }
    encoder->finish(out);
    return out;
}

struct ReadAll {
    std::vector<OwnQuery> queries;
    std::string refused; ///< why the trace could not be opened
    std::string trouble;
    std::string description;
    std::uint64_t good = 0; ///< without the closes
};

inline ReadAll read_file(const std::string& path, bool closes = true) {
    ReadAll out;
    try {
        Reader reader(path, {.closes = closes});
        Query query;
        while (reader.next(query)) {
            out.good += query.is_close() ? 0U : 1U;
            out.queries.push_back(own(query));
        }
        out.trouble = reader.trouble();
        out.description = reader.description();
    } catch (const TraceError& error) {
        out.refused = error.what();
    }
    return out;
}

/// What is read of a file with this content.
inline ReadAll read_content(const std::string& content, bool closes = true) {
    const auto path =
        std::filesystem::temp_directory_path() / ("reprise-forms-" + std::to_string(getpid()));
    std::ofstream(path, std::ios::binary) << content;
    ReadAll out = read_file(path, closes);
    std::filesystem::remove(path);
    return out;
}

} // namespace reprise::trace::test
