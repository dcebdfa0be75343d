#include "zonebuilder/reconstruct/build.hh"

#include "core/base/address.hh"
#include "core/base/address_ids.hh"
#include "core/base/capabilities.hh"
#include "core/base/error.hh"
#include "core/base/progress.hh"
#include "core/dns/words.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <linux/capability.h>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {
namespace {

std::string_view reason(Unusable why) {
    switch (why) {
    case Unusable::kMalformed:
        return "malformed";
    case Unusable::kQuestion:
        return "not_one_question";
    case Unusable::kClass:
        return "class_not_in";
    case Unusable::kOpcode:
        return "opcode";
    case Unusable::kNo:
        break;
    }
    return "";
}

/// Reads messages one by one.
class Observer {
public:
    Observer(Observations& seen, CaptureCounts& counts)
        : seen_(seen), counts_(counts), reader_(seen.names(), seen.contents()) {}

    void take(const Query& query) {
        if (query.is_response()) {
            take_response(query);
        } else {
            asked_.add(query.destination.address);
            queries_.query(query);
        }
    }

    void finish() {
        counts_.queries = queries_.queries();
        counts_.answered = queries_.answered();
        for (const IpAddress& address : asked_.all()) {
            if (!heard_.find(address)) {
                counts_.silent.push_back(seen_.server(address));
            }
        }
        std::ranges::sort(counts_.silent, {},
                          [this](ServerId server) { return seen_.address(server); });
    }

private:
    void take_response(const Query& query) {
        ++counts_.responses;
        heard_.add(query.source.address);
        const trace::Asked asked = queries_.response(query);
        if (asked == trace::Asked::kNo) {
            ++counts_.unused["not_asked"];
            counts_.unasked.push_back(
                {.server = seen_.server(query.source.address), .time = query.time});
            return;
        }
        counts_.without_query += asked == trace::Asked::kUnknown ? 1 : 0;
        if (const Unusable why = reader_.read(query.message, response_); why != Unusable::kNo) {
            ++counts_.unused[reason(why)];
        } else if (response_.truncated) {
            ++counts_.unused["truncated"];
        } else {
            ++counts_.used;
            seen_.add(response_, seen_.server(query.source.address), query.time);
        }
    }

    Observations& seen_;
    CaptureCounts& counts_;
    ResponseReader reader_;
    Response response_;
    trace::AskedBefore queries_;
    AddressTable asked_;
    AddressTable heard_;
};

} // namespace

CaptureCounts observe(const CaptureOptions& options, Observations& seen) {
    CaptureCounts counts;
    trace::Feed feed({.paths = options.paths,
                      .reader = {.ports = options.ports},
                      .responses = trace::Responses::kWhole});
    feed.open();
    give_up({CAP_DAC_READ_SEARCH});
    Observer observer(seen, counts);
    Progress progress("build");
    feed.each([&](const Query& query) {
        observer.take(query);
        progress.tick(counts.responses, feed.share_read());
        return true;
    });
    observer.finish();
    counts.files = feed.files();
    counts.reader = feed.counters();
    return counts;
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
