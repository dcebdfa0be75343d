// Responses of name servers, all the way to zone text: pieces with a byte for the server and their
// size in front. Whatever servers say, each zone that is built must load.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

using namespace reprise;              // NOLINT(google-build-using-namespace)
using namespace reprise::zonebuilder; // NOLINT(google-build-using-namespace)

/// The first one is a root server.
IpAddress server_of(std::uint8_t number) {
    const std::array<std::uint8_t, 4> root{198, 41, 0, 4};
    const std::array<std::uint8_t, 4> other{192, 0, 2, number};
    return IpAddress::v4(number == 0 ? root.data() : other.data());
}

void read_all(Bytes data, Observations& seen) {
    ResponseReader reader(seen.names(), seen.contents());
    Response response;
    Cursor cursor(data);
    for (Nanoseconds time = 0; cursor.left() > 3; time += kSecond) {
        const std::uint8_t server = cursor.u8();
        const std::size_t size = cursor.u16be();
        const Bytes message = cursor.take(std::min(size, cursor.left()));
        if (reader.read(message, response).empty()) {
            seen.add(response, seen.server(server_of(server)), time);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Observations seen;
    read_all({data, size}, seen);
    const Hierarchy hierarchy(seen);
    Drafts drafts = make_drafts(seen, hierarchy);
    complete(seen, hierarchy, drafts);
    for (const Draft& zone : drafts.zones) {
        const std::string text = zone_text(zone, seen, Dnssec::kKeep);
        std::optional<NameKey> name = seen.names().name(zone.name);
        try {
            read_zone(text, "fuzz.zone", name);
        } catch (const ZoneError& error) {
            std::fprintf(stderr, "line %lu: %s\n%s", static_cast<unsigned long>(error.line()),
                         error.what(), text.c_str());
            std::abort();
        }
    }
    return 0;
}
