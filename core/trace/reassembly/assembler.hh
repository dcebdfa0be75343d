#pragma once
// Packets in, DNS messages out: fragments and TCP streams are put together on the way. Pure: it
// neither reads files nor clocks.
//
// What counts as DNS is what the field's tools (Wireshark's dissector) take for it: any UDP payload
// and any length-prefixed TCP message of at least 12 bytes with a DNS port at either end, whatever
// it holds. A server is asked such nonsense too, so a replay has to ask it. Messages quoted inside
// ICMP errors are not messages.

#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstddef>
#include <vector>

namespace reprise::trace {

class Assembler {
public:
    explicit Assembler(const ReaderOptions& options);
    Assembler(const Assembler&) = delete;
    Assembler& operator=(const Assembler&) = delete;

    /// Takes one packet. Call only when pop() yields nothing more: messages borrow from the packet
    /// and from buffers reused here.
    void feed(const Packet& packet);

    /// The trace has ended: what waits for more is given up.
    void finish();

    /// The next message, in the order in which packets completed them.
    bool pop(Query& query);

    [[nodiscard]] const Tally& tally() const { return tally_; }

private:
    bool complete(IpPacket& ip, Nanoseconds time);
    bool out_of_tunnel(IpPacket& ip, Nanoseconds time);
    void feed_tcp(const IpPacket& ip, Nanoseconds time);

    ReaderOptions options_;
    Tally tally_;
    DnsPorts ports_;
    FragmentTable fragments_;
    ConnectionTable connections_;
    std::vector<Query> ready_;
    size_t popped_ = 0;
};

} // namespace reprise::trace
