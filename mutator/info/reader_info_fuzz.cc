// What `trace info` makes of messages: pairs, names and figures, and JSON of them. Input: messages,
// each with a byte of flags (1 TCP, 2 from the server, 4 IPv6, 8 another client), time (8 bytes)
// and size (2 bytes), little-endian.
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <utility>

namespace {

using namespace reprise; // NOLINT(google-build-using-namespace)

Endpoint endpoint(bool v6, const char* v4_text, const char* v6_text) {
    return Endpoint::parse(v6 ? v6_text : v4_text).value_or(Endpoint{});
}

Query message_of(Cursor& in) {
    const unsigned flags = in.u8();
    const auto time = static_cast<Nanoseconds>(in.little<std::uint64_t>());
    const size_t size = in.little<std::uint16_t>();
    const bool v6 = (flags & 4U) != 0;
    Query out{.time = time,
              .source = endpoint(v6, "192.0.2.1:1024", "[2001:db8::1]:1024"),
              .destination = endpoint(v6, "198.51.100.1:53", "[2001:db8:1::1]:53"),
              .connection = flags & 1U,
              .transport = (flags & 1U) != 0 ? Transport::kTcp : Transport::kUdp,
              .message = in.take(std::min(size, in.left()))};
    out.source.port = static_cast<std::uint16_t>(out.source.port + (flags & 8U));
    if ((flags & 2U) != 0) {
        std::swap(out.source, out.destination);
    }
    return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    Cursor in({data, size});
    mutator::TraceInfo info;
    while (in.left() > 0) {
        const Query query = message_of(in);
        if (!in.ok() || query.message.size() < 12 || !is_trace_time(query.time)) {
            break; // a reader has none of them
        }
        info.add(query);
    }
    info.finish();
    const mutator::FileFacts file{
        .path = "fuzz", .description = "fuzz", .counters = {}, .trouble = {}};
    const auto json = nlohmann::json::parse(info_json(file, info.figures()), nullptr, false);
    if (json.is_discarded() || info_text(file, info.figures()).empty()) {
        std::abort();
    }
    return 0;
}
