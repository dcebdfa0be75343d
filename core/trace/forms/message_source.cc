#include "core/trace/forms/message_source.hh"

#include "core/base/address.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

namespace reprise::trace {

IpAddress nobody(bool ipv6) {
    IpAddress address;
    address.family = ipv6 ? 6 : 4;
    return address;
}

IpAddress example_server(bool ipv6) {
    constexpr std::array<std::uint8_t, 4> kFour{192, 0, 2, 53};
    constexpr std::array<std::uint8_t, 16> kSix{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0,
                                                0,    0,    0,    0,    0, 0, 0, 0x53};
    return ipv6 ? IpAddress::v6(kSix.data()) : IpAddress::v4(kFour.data());
}

bool QuerySource::next(Query& query) {
    do {
        if (!trouble_.empty() || !next_query(query)) {
            return false;
        }
        ++items_;
    } while (query.is_close() && !closes_);
    good_ += query.is_close() ? 0U : 1U;
    return true;
}

bool QuerySource::fail(const std::string& place, const std::string& what) {
    trouble_ = fmt::format("{}{}{} ({} {} good)", place, place.empty() ? "" : ", ", what, good_,
                           good_ == 1 ? "query was" : "queries were");
    return false;
}

} // namespace reprise::trace
