#include "core/base/json.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

RuleSet set_of(const std::vector<std::pair<std::string, std::string>>& options) {
    RuleSet set;
    for (const auto& [kind, value] : options) {
        set.rules.push_back(parse_rule_option(kind, value));
    }
    return set;
}

/// A trace of so many queries.
trace::Feed feed_of(unsigned queries) {
    const std::string path = ::testing::TempDir() + "chain.tsv";
    std::ofstream file(path);
    file << "#reprise-text 1\ntime\tsource\tname\ttype\n";
    for (unsigned i = 0; i < queries; ++i) {
        file << i << "\t192.0.2." << i % 10 << "\t.\tNS\n";
    }
    file.close();
    return trace::Feed({.paths = {path}});
}

std::uint64_t count(Chain& chain, trace::Feed& feed) {
    std::uint64_t queries = 0;
    for (Batch batch; chain.read(feed, batch);) {
        queries += batch.queries.size();
    }
    return queries;
}

TEST(Chain, MoreThanABatchHoldsComesInPiecesAndNoneIsLost) {
    trace::Feed feed = feed_of(20);
    Chain chain(set_of({{"duplicate", "5000"}, {"keep", "share=50"}, {"duplicate", "3"}}));
    EXPECT_EQ(count(chain, feed), 20U * 5000 / 2 * 3);
}

TEST(Chain, EachLapIsLikeTheFirstAndCountsGoOn) {
    trace::Feed feed = feed_of(1000);
    RuleSet set = set_of({{"drop", "share=0.7"}});
    Chain chain(set);
    const std::uint64_t left = count(chain, feed);
    EXPECT_EQ(left, 993U);
    feed.restart();
    chain.restart();
    EXPECT_EQ(count(chain, feed), left);
    const Json told = counts_json(set, chain.counts());
    EXPECT_EQ(told.dump(), R"([{"kind":"drop","place":"--drop","changed":14,"dropped":14,)"
                           R"("matched":14,"seen":2000}])");
}

TEST(Chain, RulesThatMustSeeTheTraceFirstAreRefused) {
    const auto complaint = [](const std::string& kind, const std::string& value) {
        try {
            Chain{set_of({{kind, value}})};
        } catch (const RuleError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(complaint("heavy", "10"),
              "--heavy: reads the trace twice; change the trace before it "
              "is played, with reprise mutate");
    for (const auto& [kind, value] : {std::pair("jitter", "5"), std::pair("shift", "1,share=50"),
                                      std::pair("shift", "1,where.type=A")}) {
        EXPECT_THAT(complaint(kind, value), ::testing::HasSubstr("holds back a part of the trace"));
    }
    EXPECT_EQ(complaint("shift", "1"), "");
}

} // namespace
} // namespace reprise::rules
