#include "core/trace/forms/pcap/pcap_encoder.hh"

#include "core/base/checksum.hh"
#include "core/base/error.hh"
#include "core/base/random.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace reprise::trace {

namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kUdpHeader = 8;
constexpr size_t kTcpHeader = 20;
constexpr size_t kMssOption = 4;
constexpr size_t kMaxLength = 65'535;
constexpr std::uint16_t kWindow = 65'535;

/// At the beginning of the file.
struct PcapFileHeader {
    std::uint32_t magic = 0xa1b23c4d;
    std::uint16_t major = 2;
    std::uint16_t minor = 4;
    std::int32_t zone = 0;
    std::uint32_t accuracy = 0;
    std::uint32_t snap_length = 262'144;
    std::uint32_t link_type = 101;
};

/// Before each packet.
struct PcapPacketHeader {
    std::uint32_t seconds;
    std::uint32_t nanoseconds;
    std::uint32_t captured; ///< bytes that follow
    std::uint32_t size;     ///< bytes of the whole packet
};

/// Whether a capture has a place for it: times are 32-bit seconds, to the year 2106.
bool is_pcap_time(Nanoseconds time) { return time >= 0 && time / kSecond <= 0xffffffff; }

/// Sizes the packet, writes the IP header and copies the payload behind `transport_size` zero
/// bytes. Returns the offset of the transport header.
size_t start_packet(std::vector<std::uint8_t>& out, const IpAddress& from, const IpAddress& to,
                    std::uint8_t protocol, size_t transport_size, Bytes payload) {
    const size_t ip_size = from.is_v4() ? kIpv4Header : kIpv6Header;
    // IPv4's length field counts its header, IPv6's does not.
    const size_t most = kMaxLength - transport_size - (from.is_v4() ? kIpv4Header : 0);
    if (payload.size() > most) {
        throw Error("a payload of " + std::to_string(payload.size()) +
                    " bytes does not fit a packet; give at most " + std::to_string(most));
    }
    out.assign(ip_size + transport_size, 0);
    out.insert(out.end(), payload.begin(), payload.end());
    std::uint8_t* const ip = out.data();
    std::uint8_t* const addresses = ip + ip_size - 2 * from.size();
    std::memcpy(addresses, from.bytes.data(), from.size());
    std::memcpy(addresses + from.size(), to.bytes.data(), to.size());
    if (from.is_v4()) {
        ip[0] = 0x45;
        store16(ip + 2, out.size());
        ip[6] = 0x40; // don't fragment, so an identification of 0 is right (RFC 6864)
        ip[8] = kHopLimit;
        ip[9] = protocol;
        Checksum sum;
        sum.add(Bytes(out).first(kIpv4Header));
        sum.store(ip + 10);
    } else {
        ip[0] = 0x60;
        store16(ip + 4, out.size() - kIpv6Header);
        ip[6] = protocol;
        ip[7] = kHopLimit;
    }
    return ip_size;
}

/// Checksum over pseudo-header and transport part (RFC 768, RFC 9293, RFC 8200 section 8.1), which
/// begins behind the addresses.
Checksum transport_checksum(const std::vector<std::uint8_t>& out, size_t at, const IpAddress& from,
                            std::uint8_t protocol) {
    Checksum sum;
    sum.add(static_cast<std::uint16_t>(out.size() - at));
    sum.add(std::uint16_t{protocol});
    sum.add(Bytes(out).subspan(at - 2 * from.size()));
    return sum;
}

void fill_tcp(std::uint8_t* at, const TcpPacket& segment, size_t header) {
    store16(at, segment.from.port);
    store16(at + 2, segment.to.port);
    store32(at + 4, segment.sequence);
    store32(at + 8, segment.acknowledgement);
    at[12] = static_cast<std::uint8_t>(header / 4 << 4U);
    at[13] = segment.flags;
    store16(at + 14, kWindow);
    if (header > kTcpHeader) {
        at[kTcpHeader] = 2; // maximum segment size, for an MTU of 1500
        at[kTcpHeader + 1] = kMssOption;
        store16(at + kTcpHeader + 2, segment.from.address.is_v4() ? 1460 : 1440);
    }
}

} // namespace

void append_packet(std::string& out, Nanoseconds time, Bytes packet, std::uint32_t missing) {
    if (!is_pcap_time(time)) {
        throw Error(fmt::format("a packet at {} ns lies outside a capture's years 1970 to 2106; "
                                "change the times",
                                time));
    }
    const auto size = static_cast<std::uint32_t>(packet.size());
    append_little(out, PcapPacketHeader{static_cast<std::uint32_t>(time / kSecond),
                                        static_cast<std::uint32_t>(time % kSecond), size,
                                        size + missing});
    out.append(reinterpret_cast<const char*>(packet.data()), packet.size());
}

void build_udp(std::vector<std::uint8_t>& out, const Endpoint& from, const Endpoint& to,
               Bytes payload) {
    const size_t at =
        start_packet(out, from.address, to.address, kProtocolUdp, kUdpHeader, payload);
    std::uint8_t* udp = out.data() + at;
    store16(udp, from.port);
    store16(udp + 2, to.port);
    store16(udp + 4, kUdpHeader + payload.size());
    transport_checksum(out, at, from.address, kProtocolUdp).store_udp(udp + 6);
}

void build_tcp(std::vector<std::uint8_t>& out, const TcpPacket& segment) {
    const bool syn = (segment.flags & kTcpSyn) != 0;
    const size_t header = kTcpHeader + (syn ? kMssOption : 0);
    const IpAddress& from = segment.from.address;
    const IpAddress& to = segment.to.address;
    const size_t at = start_packet(out, from, to, kProtocolTcp, header, segment.payload);
    fill_tcp(out.data() + at, segment, header);
    transport_checksum(out, at, from, kProtocolTcp).store(out.data() + at + 16);
}

TcpPacket TcpEnds::segment(size_t from, std::uint8_t flags, Bytes payload) {
    std::uint32_t& sequence = next.at(from);
    const TcpPacket made{.from = ends.at(from),
                         .to = ends.at(1 - from),
                         .sequence = sequence,
                         .acknowledgement = (flags & kTcpAck) != 0 ? next.at(1 - from) : 0,
                         .flags = flags,
                         .payload = payload};
    sequence += static_cast<std::uint32_t>(payload.size());
    sequence += (flags & (kTcpSyn | kTcpFin)) != 0 ? 1U : 0U;
    return made;
}

namespace {

bool over_connection(const Query& query) {
    return query.transport == Transport::kTcp || query.transport == Transport::kStatelessTcp;
}

void check_fits(const Query& query) {
    if (query.transport != Transport::kUdp && !over_connection(query)) {
        throw Error(fmt::format("a capture cannot hold transport {}; write .tsv or .rps",
                                transport_name(query.transport)));
    }
    if (query.source.address.family != query.destination.address.family) {
        throw Error(fmt::format("a capture cannot hold a query from {} to {}, of another family; "
                                "write .tsv or .rps, or change both ends",
                                query.source.text(), query.destination.text()));
    }
    if (!is_pcap_time(query.time)) {
        throw Error(fmt::format("a query at {} ns lies outside a capture's years 1970 to 2106; "
                                "shift the times or write .tsv or .rps",
                                query.time));
    }
}

class PcapEncoder final : public QueryEncoder {
public:
    explicit PcapEncoder(size_t connections) : most_(connections) {}

    void begin(std::string& out) override { append_little(out, PcapFileHeader{}); }

    void encode(const Query& query, std::string& out) override {
        check_fits(query);
        note_classes(query);
        if (over_connection(query)) {
            encode_stream(query, out);
        } else if (query.is_close()) {
            leave_close_out(query.connection);
        } else {
            build_udp(packet_, query.source, query.destination, query.message);
            append_packet(out, query.time, packet_);
        }
    }

    void finish(std::string& /*out*/) override {
        if (alone_ > 0) {
            spdlog::warn("work=mutate queries_alone={} note=\"a capture cannot hold queries over "
                         "TCP without a connection: each has one of its own in it, over plain TCP, "
                         "and in a replay; write .tsv or .rps to keep them\"",
                         alone_);
        }
        if (forgotten_ > 0) {
            spdlog::warn("work=mutate connections_forgotten={} note=\"more than {} connections "
                         "were open at a time\"",
                         forgotten_, most_);
        }
        if (cut_) {
            spdlog::warn("work=mutate connections_split={} closes_left_out={} note=\"a capture "
                         "cannot hold connections that share addresses and ports at a time: the "
                         "later ends the earlier; write .tsv or .rps to keep them whole\"",
                         losses_.connections_split, losses_.closes_left_out);
        }
    }

    [[nodiscard]] EncoderLosses losses() const override { return losses_; }

private:
    struct Connection {
        TcpEnds tcp;
        std::uint64_t id = 0; ///< the trace's
    };

    using List = std::list<Connection>; ///< longest unused first

    void segment(Connection& connection, size_t from, std::uint8_t flags, Bytes payload,
                 Nanoseconds time, std::string& out) {
        build_tcp(packet_, connection.tcp.segment(from, flags, payload));
        append_packet(out, time, packet_);
    }

    void encode_stream(const Query& query, std::string& out) {
        const size_t from = query.destination < query.source ? 1 : 0;
        const Ends ends = from == 0 ? Ends{query.source, query.destination}
                                    : Ends{query.destination, query.source};
        const auto found = index_.find(ends);
        const bool known =
            found != index_.end() && query.connection != 0 && found->second->id == query.connection;
        if (query.is_close()) {
            if (known) {
                close(ends, from, query.time, out);
            } else {
                leave_close_out(query.connection);
            }
            return;
        }
        if (known) {
            open_.splice(open_.end(), open_, found->second);
        }
        send(known ? open_.back() : open(query, ends, from, out), from, query, out);
        if (query.connection == 0) {
            ++alone_;
            close(ends, from, query.time, out);
        }
    }

    Connection& open(const Query& query, const Ends& ends, size_t client, std::string& out) {
        if (query.connection != 0 && displaced_.erase(query.connection) > 0) {
            ++losses_.connections_split;
            cut_ = true;
        }
        displace(ends);
        if (open_.size() == most_) {
            ++forgotten_;
            displace(open_.front().tcp.ends);
        }
        const std::uint64_t first = mix_bits(opened_++ + kGoldenStep);
        open_.push_back({.tcp = {.ends = ends,
                                 .next = {static_cast<std::uint32_t>(first),
                                          static_cast<std::uint32_t>(first >> 32U)}},
                         .id = query.connection});
        index_[ends] = std::prev(open_.end());
        Connection& connection = open_.back();
        segment(connection, client, kTcpSyn, {}, query.time, out);
        segment(connection, 1 - client, kTcpSyn | kTcpAck, {}, query.time, out);
        segment(connection, client, kTcpAck, {}, query.time, out);
        return connection;
    }

    void send(Connection& connection, size_t from, const Query& query, std::string& out) {
        payload_.clear();
        append16(payload_, query.message.size());
        payload_.insert(payload_.end(), query.message.begin(), query.message.end());
        for (Bytes left(payload_); !left.empty();) {
            const Bytes piece = left.first(std::min(left.size(), kMaxPayload));
            segment(connection, from, kTcpPush | kTcpAck, piece, query.time, out);
            left = left.subspan(piece.size());
        }
        segment(connection, 1 - from, kTcpAck, {}, query.time, out);
    }

    void close(const Ends& ends, size_t from, Nanoseconds time, std::string& out) {
        const auto found = index_.find(ends);
        Connection& connection = *found->second;
        segment(connection, from, kTcpFin | kTcpAck, {}, time, out);
        segment(connection, 1 - from, kTcpFin | kTcpAck, {}, time, out);
        segment(connection, from, kTcpAck, {}, time, out);
        open_.erase(found->second);
        index_.erase(found);
    }

    /// Its connection was never open, or another one has its ports.
    void leave_close_out(std::uint64_t id) {
        ++losses_.closes_left_out;
        cut_ |= displaced_.erase(id) > 0;
    }

    /// Gives the place of the connection between these ends, if there is one, to another.
    void displace(const Ends& ends) {
        const auto found = index_.find(ends);
        if (found != index_.end()) {
            if (displaced_.size() == most_) {
                displaced_.clear(); // old ones have ended, most likely
            }
            displaced_.insert(found->second->id);
            open_.erase(found->second);
            index_.erase(found);
        }
    }

    void note_classes(const Query& query) {
        if (!classes_noted_ && (query.rtt_class != 0 || query.idle_class != 0)) {
            classes_noted_ = true;
            spdlog::warn(
                "work=mutate note=\"a capture cannot hold RTT and idle classes; they are left "
                "out, write .tsv or .rps to keep them\"");
        }
    }

    size_t most_;
    List open_;
    std::unordered_map<Ends, List::iterator, EndsHash> index_;
    std::uint64_t opened_ = 0;
    std::uint64_t forgotten_ = 0;                 ///< connections, for lack of memory
    std::uint64_t alone_ = 0;                     ///< queries without a connection
    std::unordered_set<std::uint64_t> displaced_; ///< ids that had no close; at most `most_`
    EncoderLosses losses_;
    bool cut_ = false; ///< a connection was split, or its close left out for another one
    bool classes_noted_ = false;
    std::vector<std::uint8_t> packet_;
    std::vector<std::uint8_t> payload_;
};

} // namespace

std::unique_ptr<QueryEncoder> make_pcap_encoder(size_t connections) {
    return std::make_unique<PcapEncoder>(connections);
}

} // namespace reprise::trace
