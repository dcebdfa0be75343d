#include "zonebuilder/reconstruct/build.hh"

#include "core/base/address.hh"
#include "core/base/address_ids.hh"
#include "core/base/capabilities.hh"
#include "core/base/progress.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"

#include <algorithm>
#include <linux/capability.h>
#include <string_view>

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

} // namespace reprise::zonebuilder
