#include "core/trace/reassembly/fragments.hh"

#include "core/dns/message.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>

namespace reprise::trace {

namespace {

constexpr std::uint32_t kMaxDatagram = 65'535;
constexpr size_t kMaxPieces = 1'024;
/// What a datagram and a piece cost beside their bytes, roughly.
constexpr size_t kDatagramCost = 256;
constexpr size_t kPieceCost = 64;

} // namespace

size_t FragmentTable::KeyHash::operator()(const Key& key) const noexcept {
    const std::hash<IpAddress> hash;
    return (hash(key.source) * 31 + hash(key.destination)) * 31 + key.id;
}

FragmentTable::Datagram& FragmentTable::find(const Key& key, Nanoseconds now) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
        return *found->second;
    }
    list_.push_back({.key = key, .started = now, .pieces = {}});
    list_.back().memory = kDatagramCost;
    used_ += kDatagramCost;
    index_.emplace(key, std::prev(list_.end()));
    return list_.back();
}

void FragmentTable::drop(List::iterator it) {
    used_ -= it->memory;
    index_.erase(it->key);
    list_.erase(it);
}

void FragmentTable::condemn(Datagram& datagram, Count why) {
    tally_->add(why);
    used_ -= datagram.memory - kDatagramCost;
    datagram.memory = kDatagramCost;
    datagram.pieces = {};
    datagram.condemned = true;
}

void FragmentTable::give_up_first(Count why) {
    if (!list_.front().condemned) {
        tally_->add(why);
    }
    drop(list_.begin());
}

void FragmentTable::make_room(const Datagram& keep) {
    while (used_ > memory_ && &list_.front() != &keep) {
        give_up_first(Count::kFragmentEvicted);
    }
}

void FragmentTable::finish() {
    while (!list_.empty()) {
        give_up_first(Count::kFragmentTimeout);
    }
}

/// False where the fragment was not taken: a duplicate, or it condemned the datagram.
bool FragmentTable::insert(Datagram& datagram, const IpPacket& ip) {
    const std::uint32_t begin = ip.offset;
    const auto end = begin + static_cast<std::uint32_t>(ip.payload.size());
    auto& pieces = datagram.pieces;
    const auto after = std::ranges::lower_bound(pieces, begin, {}, &Piece::offset);
    if (after != pieces.end() && after->offset == begin &&
        std::ranges::equal(after->data, ip.payload)) {
        tally_->add(Count::kFragmentDuplicate);
        return false;
    }
    const bool overlaps = (after != pieces.end() && after->offset < end) ||
                          (after != pieces.begin() && std::prev(after)->end() > begin);
    const bool contradicts_size = (datagram.size != 0 && (end > datagram.size || !ip.more)) ||
                                  (!ip.more && !pieces.empty() && pieces.back().end() > end);
    if (overlaps || contradicts_size || end > kMaxDatagram || pieces.size() == kMaxPieces) {
        condemn(datagram, Count::kFragmentOverlap);
        return false;
    }
    pieces.insert(after, {.offset = begin, .data = {ip.payload.begin(), ip.payload.end()}});
    datagram.received += end - begin;
    datagram.memory += kPieceCost + ip.payload.size();
    used_ += kPieceCost + ip.payload.size();
    return true;
}

bool FragmentTable::add(IpPacket& ip, Nanoseconds now) {
    while (!list_.empty() && now - list_.front().started > timeout_) {
        give_up_first(Count::kFragmentTimeout);
    }
    tally_->add(Count::kFragment);
    if (ip.payload.empty() || (ip.more && ip.payload.size() % 8 != 0)) {
        tally_->add(Count::kBadPacket);
        return false;
    }
    // RFC 791 has the protocol in the key; RFC 8200 section 4.5 has not, and takes it from the
    // first fragment.
    const Key key{.source = ip.source,
                  .destination = ip.destination,
                  .id = ip.fragment_id,
                  .protocol = ip.source.is_v4() ? ip.protocol : std::uint8_t{0}};
    Datagram& datagram = find(key, now);
    if (datagram.condemned || !insert(datagram, ip)) {
        make_room(datagram);
        return false;
    }
    if (ip.offset == 0) {
        datagram.protocol = ip.protocol;
    }
    if (!ip.more) {
        datagram.size = ip.offset + static_cast<std::uint32_t>(ip.payload.size());
    }
    if (datagram.size == 0 || datagram.received != datagram.size) {
        make_room(datagram);
        return false;
    }
    joined_.clear();
    for (const Piece& piece : datagram.pieces) {
        joined_.insert(joined_.end(), piece.data.begin(), piece.data.end());
    }
    ip.protocol = datagram.protocol;
    ip.fragment = false;
    ip.payload = joined_;
    drop(index_.find(key)->second);
    return true;
}

namespace {

Sorted sort_whole(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                  Query& query) {
    if (ip.fragment) {
        return Sorted::kAssembler;
    }
    if (ip.protocol != kProtocolTcp) {
        return read_datagram(ip, time, ports, tally, query) ? Sorted::kMessage : Sorted::kNothing;
    }
    const auto tcp = decode_tcp(ip.payload);
    if (tcp && !ports.either(tcp->source_port, tcp->destination_port)) {
        tally.add(Count::kOtherPort);
        return Sorted::kNothing;
    }
    return Sorted::kAssembler;
}

} // namespace

bool decode_counted(const Packet& packet, IpPacket& ip, Tally& tally) {
    switch (decode_packet(packet, ip)) {
    case Decoded::kIp:
        return true;
    case Decoded::kBad:
        tally.add(packet.wire_length > packet.bytes.size() ? Count::kCutPacket : Count::kBadPacket);
        break;
    case Decoded::kUnknownLink:
        tally.add(Count::kUnknownLink);
        break;
    case Decoded::kMplsUnread:
        tally.add(Count::kMplsUnread);
        break;
    case Decoded::kNotIp:
        tally.add(Count::kNotIp);
    }
    return false;
}

bool read_datagram(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                   Query& query) {
    if (ip.protocol != kProtocolUdp) {
        tally.add(Count::kOtherProtocol);
        return false;
    }
    const auto udp = decode_udp(ip.payload);
    if (udp && !ports.either(udp->source_port, udp->destination_port)) {
        tally.add(Count::kOtherPort);
    } else if (!udp || udp->payload.size() < udp->size) {
        tally.add(ip.cut ? Count::kCutPacket : Count::kBadPacket);
    } else if (udp->size < kDnsHeaderSize) {
        tally.add(udp->size == 0 ? Count::kEmptyDatagram : Count::kShortMessage);
    } else {
        query = {.time = time,
                 .source = {.address = ip.source, .port = udp->source_port},
                 .destination = {.address = ip.destination, .port = udp->destination_port},
                 .message = udp->payload};
        return true;
    }
    return false;
}

Sorted sort_packet(const Packet& packet, const DnsPorts& ports, Tally& tally, Query& query) {
    IpPacket ip;
    if (!decode_counted(packet, ip, tally)) {
        return Sorted::kNothing;
    }
    const Tunnel tunnel = leave_tunnel(ip, ports, tally);
    if (tunnel == Tunnel::kUnreadable) {
        return Sorted::kNothing;
    }
    const Sorted sorted = sort_whole(ip, packet.time, ports, tally, query);
    if (sorted == Sorted::kAssembler) {
        query.source.address = ip.source;
    } else if (tunnel == Tunnel::kLeft) {
        tally.add(Count::kTunnel);
    }
    return sorted;
}

} // namespace reprise::trace
