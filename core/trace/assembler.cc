#include "core/trace/assembler.hh"

#include "core/clock.hh"
#include "core/trace/datagrams.hh"
#include "core/trace/packet.hh"
#include "core/trace/reader.hh"
#include "core/trace/tally.hh"

namespace reprise::trace {

Assembler::Assembler(const ReaderOptions& options)
    : options_(options), ports_(options.ports),
      fragments_(options.fragment_bytes, options.fragment_timeout, tally_),
      connections_(options_, tally_) {}

bool Assembler::pop(Message& message) {
    if (popped_ == ready_.size()) {
        return false;
    }
    message = ready_[popped_++];
    return true;
}

void Assembler::feed(const Packet& packet) {
    ready_.clear();
    popped_ = 0;
    IpPacket ip;
    switch (decode_packet(packet, ip)) {
    case Decoded::kNotIp:
        tally_.add(Count::kNotIp);
        break;
    case Decoded::kBad:
        tally_.add(packet.wire_length > packet.bytes.size() ? Count::kCutPacket
                                                            : Count::kBadPacket);
        break;
    case Decoded::kIp:
        feed_ip(ip, packet.time);
        break;
    }
}

void Assembler::feed_ip(IpPacket& ip, Nanoseconds time) {
    if (ip.fragment) {
        feed_fragment(ip, time);
    } else if (ip.protocol == kProtocolUdp) {
        feed_udp(ip, time);
    } else if (ip.protocol == kProtocolTcp) {
        feed_tcp(ip, time);
    } else {
        tally_.add(Count::kOtherProtocol);
    }
}

void Assembler::feed_fragment(IpPacket& ip, Nanoseconds time) {
    if (ip.cut) {
        tally_.add(Count::kCutPacket);
        return;
    }
    if (!fragments_.add(ip, time)) {
        return;
    }
    // Extension headers may stand behind the fragment header; a second fragment header may not.
    if (ip.source.is_v6() && (!skip_extensions(ip) || ip.fragment)) {
        tally_.add(Count::kBadPacket);
        return;
    }
    feed_ip(ip, time);
}

void Assembler::feed_udp(const IpPacket& ip, Nanoseconds time) {
    Message message;
    if (read_datagram(ip, time, ports_, tally_, message)) {
        ready_.push_back(message);
    }
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
