#pragma once
// UDP in source mode "packet": queries leave as whole frames with the trace's own addresses and
// ports, replies are taken off the interface before the stack sees them. No socket, address or port
// of this host is in the way, so a source costs no memory here.
//
// Replies come by an XDP program, as beginnings of messages or as frames (fragments, IP options,
// extension headers, replies that are wanted whole). Nothing wakes the process for a reply: the
// program stamps it, so when it is fetched does not matter to its latency; next_wake() says when at
// the latest.
//
// One querier a host and interface: two could not tell their replies apart.

#include "querier/carrier/carrier.hh"

#include <memory>
#include <string>

namespace reprise::querier {

/// Throws Error or SystemError where this host, user or network cannot.
std::unique_ptr<Carrier> packet_carrier(const CarrierWish& wish, const CarrierParts& parts);

/// Tries, in a network namespace of its own, what the mode needs: "xdp" where this kernel and user
/// allow it, else "none REASON".
std::string packet_verdict();

} // namespace reprise::querier
