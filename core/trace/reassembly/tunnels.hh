#pragma once
// Packets that travel inside others: GRE (RFC 2784), with ERSPAN in it, also over UDP (RFC 8086),
// IP in IP and 6in4 (RFC 2003, 4213), VXLAN (RFC 7348) and VXLAN-GPE, Geneve (RFC 8926), GTP-U
// (3GPP TS 29.281) and MPLS over UDP (RFC 7510). Captures at a mirror port, on a cloud's hosts or
// in a mobile network hold nothing else. One layer is opened.

#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstdint>

namespace reprise::trace {

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
