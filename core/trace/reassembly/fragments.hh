#pragma once
// Reassembly of IPv4 and IPv6 fragments with bounded memory, on trace time.

#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <bitset>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace reprise::trace {

/// Fragments that contradict each other (overlap without being equal) condemn their datagram, as
/// RFC 5722 asks for IPv6; the same rule serves IPv4, where no honest sender overlaps either.
class FragmentTable {
public:
    /// `memory`: most bytes held; `timeout`: trace time from a datagram's first fragment.
    FragmentTable(size_t memory, Nanoseconds timeout, Tally& tally)
        : memory_(memory), timeout_(timeout), tally_(&tally) {}

    /// Takes a fragment; true where it made its datagram whole. `ip` is then that datagram, its
    /// payload good until the next call.
    bool add(IpPacket& ip, Nanoseconds now);

    /// Counts what is still waiting as timed out.
    void finish();

    [[nodiscard]] size_t memory() const { return used_; }

private:
    struct Key {
        IpAddress source;
        IpAddress destination;
        std::uint32_t id = 0;
        std::uint8_t protocol = 0;

        bool operator==(const Key&) const = default;
    };

    struct KeyHash {
        size_t operator()(const Key& key) const noexcept;
    };

    struct Piece {
        std::uint32_t offset = 0;
        std::vector<std::uint8_t> data;

        [[nodiscard]] std::uint32_t end() const {
            return offset + static_cast<std::uint32_t>(data.size());
        }
    };

    struct Datagram {
        Key key;
        Nanoseconds started = 0;
        std::vector<Piece> pieces;  ///< sorted, disjoint
        std::uint32_t received = 0; ///< bytes
        std::uint32_t size = 0;     ///< 0 until the last fragment came
        std::uint8_t protocol = 0;  ///< of the first fragment: IPv6 allows the others to differ
        size_t memory = 0;
        bool condemned = false; ///< swallows what still comes
    };

    using List = std::list<Datagram>; ///< oldest first

    Datagram& find(const Key& key, Nanoseconds now);
    bool insert(Datagram& datagram, const IpPacket& ip);
    void condemn(Datagram& datagram, Count why);
    void make_room(const Datagram& keep);
    void give_up_first(Count why);
    void drop(List::iterator it);

    size_t memory_;
    Nanoseconds timeout_;
    Tally* tally_;
    List list_;
    std::unordered_map<Key, List::iterator, KeyHash> index_;
    size_t used_ = 0;
    std::vector<std::uint8_t> joined_;
};

// What one packet tells without any other: whole UDP messages. TCP segments and fragments need the
// Assembler's memory.

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

/// The DNS message of a whole IP packet over UDP; false, and counted, where there is none, also for
/// other protocols. `query.message` borrows from the packet.
bool read_datagram(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                   Query& query);

enum class Sorted : std::uint8_t {
    kNothing, ///< counted
    kMessage,
    kAssembler, ///< for the Assembler, which counts it; only the message's source address is set
};

/// Looks at a packet of a capture as Assembler::feed() does, as far as that needs no memory of
/// other packets. So packets may be sorted in any order, by any thread.
Sorted sort_packet(const Packet& packet, const DnsPorts& ports, Tally& tally, Query& query);

// Packets that travel inside others: GRE (RFC 2784), with ERSPAN in it, also over UDP (RFC 8086),
// IP in IP and 6in4 (RFC 2003, 4213), VXLAN (RFC 7348) and VXLAN-GPE, Geneve (RFC 8926), GTP-U
// (3GPP TS 29.281) and MPLS over UDP (RFC 7510). Captures at a mirror port, on a cloud's hosts or
// in a mobile network hold nothing else. One layer is opened.

enum class Tunnel : std::uint8_t {
    kNone,
    kLeft,       ///< what was inside is there now
    kUnreadable, ///< counted
};

/// Puts the packet inside in the place of the tunnel's. Those over UDP are known by the
/// destination port, unless an end is a DNS port. A fragment is left as it is.
Tunnel leave_tunnel(IpPacket& ip, const DnsPorts& ports, Tally& tally);

/// Whether leave_tunnel() would do anything.
bool in_tunnel(const IpPacket& ip, const DnsPorts& ports);

} // namespace reprise::trace
