// Frames as the XDP program hands them over, each behind its length in two bytes, from whoever can
// send to this host. No answer is from anybody but the server or larger than IP allows.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/unusual_replies.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

using namespace reprise;          // NOLINT: one function
using namespace reprise::querier; // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    UnusualReplies odd({.v4 = Endpoint::parse("198.51.100.53:53"),
                        .v6 = Endpoint::parse("[2001:db8:ffff::53]:5300")});
    Cursor cursor({data, size});
    for (Nanoseconds time = 0; cursor.left() > 2; time += kMillisecond) {
        const size_t length = cursor.u16be();
        const Bytes bytes = cursor.take(std::min(length, cursor.left()));
        const std::vector<std::uint8_t> frame(bytes.begin(), bytes.end()); // its end is guarded
        const auto result = odd.read(frame, time);
        const bool message = result.kind == UnusualReplies::Kind::kMessage;
        if (message && (result.reply.size != result.reply.bytes.size() ||
                        result.reply.size > 65535 || result.destination.address.family == 0)) {
            std::abort();
        }
    }
    return 0;
}
