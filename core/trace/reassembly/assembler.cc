#include "core/trace/reassembly/assembler.hh"

#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

namespace reprise::trace {

Assembler::Assembler(const ReaderOptions& options)
    : options_(options), ports_(options.ports),
      fragments_(options.fragment_bytes, options.fragment_timeout, tally_),
      connections_(options_, tally_) {}

bool Assembler::pop(Query& query) {
    if (popped_ == ready_.size()) {
        return false;
    }
    query = ready_[popped_++];
    return true;
}

void Assembler::feed(const Packet& packet) {
    ready_.clear();
    popped_ = 0;
    IpPacket ip;
    if (!decode_counted(packet, ip, tally_) || !complete(ip, packet.time) ||
        !out_of_tunnel(ip, packet.time)) {
        return;
    }
    Query query;
    if (ip.protocol == kProtocolTcp) {
        feed_tcp(ip, packet.time);
    } else if (read_datagram(ip, packet.time, ports_, tally_, query)) {
        ready_.push_back(query);
    }
}

/// A tunnel may have been cut into fragments, and so may what is in it. One layer is opened, so
/// that no packet can make more work than that.
bool Assembler::out_of_tunnel(IpPacket& ip, Nanoseconds time) {
    const Tunnel tunnel = leave_tunnel(ip, ports_, tally_);
    if (tunnel != Tunnel::kLeft) {
        return tunnel == Tunnel::kNone;
    }
    tally_.add(Count::kTunnel);
    if (!complete(ip, time)) {
        return false;
    }
    if (in_tunnel(ip, ports_)) {
        tally_.add(Count::kTunnelUnread);
        return false;
    }
    return true;
}

/// Whether the packet is whole, or the fragment that made its datagram whole, which `ip` is then.
bool Assembler::complete(IpPacket& ip, Nanoseconds time) {
    if (!ip.fragment) {
        return true;
    }
    if (ip.cut) {
        tally_.add(Count::kCutPacket);
        return false;
    }
    if (!fragments_.add(ip, time)) {
        return false;
    }
    // Extension headers may stand behind the fragment header; a second fragment header may not.
    if (ip.source.is_v6() && (!skip_extensions(ip) || ip.fragment)) {
        tally_.add(Count::kBadPacket);
        return false;
    }
    return true;
}

void Assembler::feed_tcp(const IpPacket& ip, Nanoseconds time) {
    const auto tcp = decode_tcp(ip.payload);
    if (!tcp) {
        tally_.add(ip.cut ? Count::kCutPacket : Count::kBadPacket);
        return;
    }
    if (!ports_.either(tcp->source_port, tcp->destination_port)) {
        tally_.add(Count::kOtherPort);
        return;
    }
    if (ip.cut) { // what was captured is used; the rest is a hole in the stream
        tally_.add(Count::kCutPacket);
    }
    connections_.add(ip, *tcp, time, ready_);
}

void Assembler::finish() {
    ready_.clear();
    popped_ = 0;
    fragments_.finish();
    connections_.finish(ready_);
}

} // namespace reprise::trace
