#pragma once
// Rewrites the addresses of one packet in place, so that every query reaches the meta-DNS-server
// and every answer seems to come from the server that was asked.
//
// Problem. A resolver R asks the address that a zone's nameserver has in the real world (OQDA, the
// original query destination address). All zones live on one server here, whose address M says for
// which of its views the query is meant, and the answer must come from the OQDA or the resolver
// throws it away. Nothing may be remembered between packets: a proxy that was killed and started
// again must serve the connections that are open, and fragments and retransmissions come in any
// order.
//
// Idea. Both directions are the same step. Beside the resolver R -> OQDA becomes OQDA -> M, beside
// the meta-DNS-server M -> OQDA becomes OQDA -> R: the new source is the old destination, and the
// new destination is looked up, by the OQDA in the one place and by M in the other. M is an address
// of one slot *and one resolver*, so M alone tells R. All state is the map.
//
// Why checksums are cheap. The Internet checksum is a sum, and the OQDA only moves from one address
// field into the other; so the sum changes by new destination minus old source, and the packet's
// payload need not be read (RFC 1624, equation 3, which has no trouble with -0). The same
// difference goes into the IPv4 header's checksum and into the pseudo-header's share of UDP's or
// TCP's. It is right in the first fragment without the others at hand, later fragments have no
// checksum of the transport, and a checksum that was wrong stays exactly as wrong. UDP keeps its
// two rules: 0 means "none" and stays (IPv4), and a computed 0 is sent as 0xffff.
//
// What does not fit is left untouched and named by its verdict. Ports are looked at only to keep
// other traffic out; a later fragment goes where its addresses say, as its first one did.
//
// Cost: 50 ns a packet (IPv4, UDP, 10,000 addresses); the two system calls around it cost 50 times
// as much.

#include "core/base/address.hh"
#include "core/base/flat_ids.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::proxy {

enum class Side : std::uint8_t {
    kResolver, ///< queries on their way out: OQDA -> M
    kMeta,     ///< answers on their way out: M -> R
    kNone,     ///< nothing is rewritten
};

/// The part of a map that one side needs.
class Routes {
public:
    /// Rewrites nothing.
    Routes() = default;

    /// Beside resolver `number`. Throws UsageError where the map does not have it.
    static Routes of_resolver(const AddressMap& map, unsigned number);

    /// Beside the meta-DNS-server, for all resolvers and instances.
    static Routes of_meta(const AddressMap& map);

    [[nodiscard]] Side side() const { return side_; }

    /// The new destination for the address at `key`, or null.
    [[nodiscard]] const std::uint8_t* find(const std::uint8_t* key, bool v6) const {
        const auto id = ids_.find(key, v6);
        return id ? to_[*id].bytes.data() : nullptr;
    }

    /// The resolver's address of a family, 0 for none. Side kResolver only.
    [[nodiscard]] const IpAddress& own(bool v6) const { return v6 ? own_v6_ : own_v4_; }

private:
    void add(const IpAddress& from, const IpAddress& to);

    Side side_ = Side::kNone;
    AddressIds ids_;
    std::vector<IpAddress> to_; ///< by id
    IpAddress own_v4_;
    IpAddress own_v6_;
};

/// What one packet counts as, besides its verdict.
enum class Traffic : std::uint8_t {
    kOther,
    kDatagram,   ///< UDP, no later fragment
    kConnection, ///< the SYN of a TCP connection (beside the meta-DNS-server: its answer)
    kPushed,     ///< a TCP segment with PSH, the end of one write: one message
};

struct Outcome {
    Verdict verdict = Verdict::kPassed;
    Traffic traffic = Traffic::kOther;
    /// Offset of the address that decides (the OQDA; of an unmapped packet the one without a
    /// route; where nothing is rewritten the destination). 0 for a malformed packet.
    std::uint8_t decides = 0;
    bool v6 = false;
};

/// Changes the packet only where the verdict is kRewritten. Any bytes are allowed.
Outcome rewrite(std::span<std::uint8_t> packet, const Routes& routes);

/// The address that an outcome speaks of.
IpAddress deciding_address(std::span<const std::uint8_t> packet, const Outcome& outcome);

} // namespace reprise::proxy
