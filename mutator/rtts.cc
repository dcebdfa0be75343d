#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/base/log.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

namespace reprise::mutator {

namespace {

/// The class of each source address that has one, whatever its port; its first counts. Memory:
/// about 100 bytes for each of them.
struct SourceRtts {
    struct Class {
        std::uint16_t ms = 0;
        bool conflicting = false;
    };

    AddressTable sources;
    std::vector<Class> classes;    ///< by number
    std::uint64_t conflicting = 0; ///< sources whose queries carry more than one class
    std::uint64_t queries = 0;
    std::uint64_t without = 0; ///< queries without a class

    void add(const Query& query) {
        if (query.is_response() || query.is_close()) {
            return;
        }
        ++queries;
        if (query.rtt_class == 0) {
            ++without;
            return;
        }
        const std::uint32_t source = sources.add(query.source.address);
        if (source == classes.size()) {
            classes.push_back({.ms = query.rtt_class});
        }
        Class& known = classes[source];
        if (known.ms != query.rtt_class && !known.conflicting) {
            known.conflicting = true;
            ++conflicting;
        }
    }

    [[nodiscard]] std::string table() const {
        std::string text = "# source\trtt_ms\n";
        for (std::uint32_t i = 0; i < classes.size(); ++i) {
            fmt::format_to(std::back_inserter(text), "{}\t{}\n", sources[i].text(), classes[i].ms);
        }
        return text;
    }
};

} // namespace

int run_rtts(const RttsOptions& options) {
    OutputFile file(options.output);
    trace::Feed feed(options.trace,
                     {.ports = options.ports, .closes = !options.rules.rules.empty()});
    rules::Chain rules(options.rules);
    SourceRtts found;
    Progress progress("rtts", check_interrupt);
    rules.each(feed, [&](const Query& query) {
        found.add(query);
        progress.tick(found.queries);
        return true;
    });
    check_interrupt();
    if (found.sources.size() == 0) {
        throw Error(fmt::format("none of the {} queries of {} ({}) carries a round trip; give a "
                                "trace of the text or stream form with the column rtt",
                                found.queries, options.trace, feed.end().description));
    }
    file.write(found.table());
    file.finish();
    spdlog::info("work=rtts sources={} conflicting={} queries={} queries_without={} "
                 "elapsed_s={:.2f}",
                 found.sources.size(), found.conflicting, found.queries, found.without,
                 progress.elapsed_s());
    if (found.conflicting != 0) {
        fmt::print(stderr,
                   "reprise-mutator: {}: {} sources have several round trips; the first of each "
                   "counts\n",
                   options.trace, found.conflicting);
    }
    return status_of(options.trace, feed.end().trouble);
}

} // namespace reprise::mutator
