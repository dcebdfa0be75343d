// Packets of any link type through decoder, fragments and TCP streams, with limits small enough for
// evictions to happen. Input: one byte of link type, then packets: u16 size and u16 milliseconds
// since the packet before (both little-endian), bytes.
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace {

using namespace reprise; // NOLINT(google-build-using-namespace)

constexpr std::array kLinks{trace::LinkType::kEthernet, trace::LinkType::kRaw,
                            trace::LinkType::kSll,      trace::LinkType::kSll2,
                            trace::LinkType::kNull,     trace::LinkType::kMpls};

/// Touches every byte handed out, so that the address sanitizer sees what is no longer there.
/// `told`: connections whose close was yielded, once each.
void drain(trace::Assembler& assembler, std::set<std::uint64_t>& told) {
    Query query;
    while (assembler.pop(query)) {
        unsigned sum = 0;
        for (const std::uint8_t byte : query.message) {
            sum += byte;
        }
        const bool tcp = query.transport == Transport::kTcp;
        if (query.is_close() &&
            !(tcp && query.message.empty() && told.insert(query.connection).second)) {
            std::abort();
        }
        if ((query.message.size() < 12 && !query.is_close()) || sum > 255U * query.message.size() ||
            tcp != (query.connection != 0)) {
            std::abort();
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    Cursor in({data, size});
    const trace::LinkType link = kLinks[in.u8() % kLinks.size()];
    trace::Assembler assembler(
        {.fragment_bytes = 4'096, .stream_bytes = 16'384, .connections = 4, .closes = true});
    std::set<std::uint64_t> told;
    Nanoseconds now = 0;
    while (in.ok() && in.left() > 0) {
        const size_t length = in.little<std::uint16_t>();
        now += in.little<std::uint16_t>() * kMillisecond;
        const Bytes bytes = in.take(std::min(length, in.left()));
        assembler.feed({.link = link,
                        .time = now,
                        .bytes = bytes,
                        .wire_length = static_cast<std::uint32_t>(bytes.size())});
        drain(assembler, told);
    }
    assembler.finish();
    drain(assembler, told);
    return 0;
}
