#pragma once
// What stands before the IP header of a captured frame.

#include "core/base/bytes.hh"
#include "core/trace/reassembly/packet.hh"

namespace reprise::trace {

/// Leaves the cursor at the IP header where it returns kIp, as far as the link tells: the header's
/// version was not looked at. Where the cursor overran, the frame is cut or damaged, whatever is
/// returned.
Decoded skip_link(LinkType link, Cursor& in);

} // namespace reprise::trace
