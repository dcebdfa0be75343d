#pragma once
// Which frames a packet socket hands over: a classic BPF program, pure.

#include "querier/sockets/transport.hh"

#include <linux/filter.h>
#include <vector>

namespace reprise::querier {

/// Accepts Ethernet frames that carry, from a server: UDP from its port, a fragment of UDP, or IPv6
/// with extension headers before whatever follows; and, from anybody, ICMP errors "unreachable"
/// about a packet to a server. Nothing else.
std::vector<sock_filter> reply_filter(const Servers& servers);

} // namespace reprise::querier
