#pragma once
// Replies as whole frames, whatever their shape: fragments, IP options, IPv6 extension headers. Of
// plain ones the fast way needs only the beginning.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/tally.hh"
#include "querier/carrier/carrier.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::querier {

/// Pure: frames in, DNS messages out. UDP checksums are not looked at: a virtual interface hands
/// over packets that have none yet.
class UnusualReplies {
public:
    enum class Kind : std::uint8_t {
        kMessage,     ///< `reply` and `destination` are set
        kPending,     ///< a fragment; its datagram is not whole
        kUnreachable, ///< an ICMP error about one of our queries
        kBad          ///< malformed, or nobody's reply
    };

    struct Result {
        Kind kind = Kind::kBad;
        Endpoint destination;
        Reply reply; ///< bytes are good until the next call
    };

    /// `fragment_memory`: most bytes held of datagrams that are not whole.
    explicit UnusualReplies(const Servers& servers, size_t fragment_memory = kFragmentMemory);

    Result read(Bytes frame, Nanoseconds time);

    [[nodiscard]] size_t fragment_memory() const { return fragments_.memory(); }

private:
    static constexpr size_t kFragmentMemory = 16 << 20; ///< some thousand large replies

    Result read_udp(const trace::IpPacket& ip, Nanoseconds time);

    Servers servers_;
    trace::Tally tally_;
    trace::FragmentTable fragments_;
    std::vector<std::uint8_t> message_;
};

} // namespace reprise::querier
