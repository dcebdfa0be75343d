#include "zonebuilder/reconstruct/zone_text.hh"

#include "core/base/error.hh"
#include "core/dns/words.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/rdata_text.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

bool is_dnssec(std::uint16_t type) {
    constexpr std::array<std::uint16_t, 9> kTypes{
        type::kDs,         type::kRrsig, type::kNsec, type::kDnskey, type::kNsec3,
        type::kNsec3Param, 59,           60,          32769};
    return std::ranges::find(kTypes, type) != kTypes.end();
}

std::string zone_text(const Draft& zone, const Observations& seen, Dnssec dnssec) {
    RdataText writer;
    std::string out;
    const auto append = [&](const DraftRrset& one, const std::string& owner, std::uint16_t type,
                            ContentId content) {
        for (const std::string_view rdata : rdatas(seen.contents()[content])) {
            fmt::format_to(std::back_inserter(out), "{} {} IN {} ", owner, one.ttl,
                           type_text(type));
            if (!writer.append(out, type, rdata)) {
                throw Error(fmt::format("a record of {} at {} cannot be written; report this",
                                        type_name(type), owner));
            }
            if (!one.why.empty()) {
                fmt::format_to(std::back_inserter(out), " ; made up: {}", one.why);
            }
            out += '\n';
        }
    };
    // Right after NS records, BIND takes records at the name of one of these servers for glue, and
    // after those of the apex it then refuses a DS record. So DS records come before.
    const auto place = [](const DraftRrset& one) {
        return static_cast<int>(one.type != type::kSoa) +
               static_cast<int>(one.type != type::kSoa && one.type != type::kDs);
    };
    std::vector<DraftRrset> ordered;
    for (const int at : {0, 1, 2}) {
        std::ranges::copy_if(zone.rrsets, std::back_inserter(ordered),
                             [&](const DraftRrset& one) { return place(one) == at; });
    }
    for (const DraftRrset& one : ordered) {
        if (dnssec == Dnssec::kStrip && is_dnssec(one.type)) {
            continue;
        }
        const std::string owner = seen.names().name(one.owner).text();
        append(one, owner, one.type, one.content);
        if (dnssec == Dnssec::kKeep && one.signatures != kNoId) {
            append(one, owner, type::kRrsig, one.signatures);
        }
    }
    return out;
}

} // namespace reprise::zonebuilder
