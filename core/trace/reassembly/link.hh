#pragma once
// What comes before the IP header of a captured frame.

#include "core/base/bytes.hh"
#include "core/trace/reassembly/packet.hh"

namespace reprise::trace {

/// Leaves the cursor at the IP header if it returns kIp, by what the link layer says: the header's
/// version was not checked. If the cursor overran, the frame is cut or damaged, whatever is
/// returned.
Decoded skip_link(LinkType link, Cursor& in);

} // namespace reprise::trace
