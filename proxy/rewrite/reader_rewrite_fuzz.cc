// Any bytes as a packet, on each side: only what may change changes, and right checksums stay
// right. The first byte chooses the side.
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/testing/packets.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using reprise::proxy::Routes;

constexpr const char* kMap = "#reprise-map 1\n"
                             "resolver\t1\t198.19.254.1\tfd00:198:19:fe::1\n"
                             "meta\t1\t1\t1\t198.18.128.1\tfd00:198:18::1\n"
                             "oqda\t198.41.0.4\t1\noqda\t2001:503:ba3e::2:30\t1\n";

const Routes& routes(unsigned choice) {
    static const auto kParsed = reprise::proxy::parse_map(kMap, "map.tsv");
    static const Routes kResolver = Routes::of_resolver(kParsed, 1);
    static const Routes kMeta = Routes::of_meta(kParsed);
    static const Routes kNone;
    return choice % 3 == 0 ? kResolver : choice % 3 == 1 ? kMeta : kNone;
}

void require(bool condition) {
    if (!condition) {
        std::abort();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    std::vector<std::uint8_t> packet(data + 1, data + size);
    const std::vector<std::uint8_t> before = packet;
    const auto outcome = reprise::proxy::rewrite(packet, routes(data[0]));
    if (outcome.verdict != reprise::proxy::Verdict::kRewritten) {
        require(packet == before);
        if (!is_malformed(outcome.verdict)) {
            static_cast<void>(deciding_address(packet, outcome));
        }
        return 0;
    }
    using namespace reprise::proxy::testing; // NOLINT(google-build-using-namespace): a test
    require(source_of(packet) == reprise::proxy::destination_of(before));
    const auto headers = reprise::proxy::read_headers(before);
    if (headers.whole && checksums_hold(before)) {
        require(checksums_hold(packet));
    }
    return 0;
}
