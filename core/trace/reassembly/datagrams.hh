#pragma once
// What one packet tells without any other: whole UDP messages. TCP segments and fragments need the
// Assembler's memory.

#include "core/trace/reassembly/message.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <bitset>
#include <cstdint>
#include <vector>

namespace reprise::trace {

class DnsPorts {
public:
    explicit DnsPorts(const std::vector<std::uint16_t>& ports) {
        for (const std::uint16_t port : ports) {
            ports_.set(port);
        }
    }

    /// Whether either end is a DNS port.
    [[nodiscard]] bool either(std::uint16_t a, std::uint16_t b) const {
        return ports_[a] || ports_[b];
    }

private:
    std::bitset<65'536> ports_;
};

/// As decode_packet(); false, and counted, where there is no IP.
bool decode_counted(const Packet& packet, IpPacket& ip, Tally& tally);

/// The DNS message of a whole IP packet of protocol UDP into `message`; false, and counted, where
/// there is none. `message.bytes` borrows from the packet.
bool read_datagram(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                   Message& message);

enum class Sorted : std::uint8_t {
    kNothing, ///< counted
    kMessage,
    kAssembler, ///< for the Assembler, which counts it; only the message's source address is set
};

/// Looks at a packet of a capture as Assembler::feed() does, as far as that needs no memory of
/// other packets. So packets may be sorted in any order, by any thread.
Sorted sort_packet(const Packet& packet, const DnsPorts& ports, Tally& tally, Message& message);

} // namespace reprise::trace
