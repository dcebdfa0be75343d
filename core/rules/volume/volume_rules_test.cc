#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/rules.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::rules {
namespace {

using ::testing::HasSubstr;

std::set<IpAddress> sources_of(const std::vector<Owned>& trace) {
    std::set<IpAddress> sources;
    for (const Owned& query : trace) {
        sources.insert(query.source.address);
    }
    return sources;
}

TEST(DuplicateRule, EveryCopyHasItsAddress) {
    for (const char* text :
         {"198.51.100.0/24", "198.51.100.0/30", "203.0.113.0/25", "2001:db8::/116"}) {
        const Prefix prefix = *Prefix::parse(text);
        const size_t room = (1UL << prefix.free_bits()) - 2;
        const auto out = run("duplicate", std::to_string(room + 2) + ",prefix=" + text,
                             {query_at(kStart, prefix.address.is_v4() ? "192.0.2.1" : "2001::1")});
        ASSERT_EQ(out.size(), room + 2);
        std::set<IpAddress> seen;
        for (size_t i = 1; i <= room; ++i) {
            EXPECT_TRUE(prefix.holds(out[i].source.address));
            EXPECT_TRUE(seen.insert(out[i].source.address).second) << text << " " << i;
        }
        EXPECT_FALSE(seen.contains(prefix.address));
        EXPECT_EQ(out.back().source, out[1].source);
    }
    EXPECT_NE(run("duplicate", "2", {query_at(kStart)}, 1, 1), // by the seed
              run("duplicate", "2", {query_at(kStart)}, 1, 2));
}

TEST(DuplicateRule, ThePopulationIsKTimesAsLarge) {
    auto trace = steady(1000, kMillisecond, kStart);
    trace.push_back(query_at(kStart + kSecond, "2001:db8::1"));
    const auto rule = make_rule("duplicate", "5");
    const auto out = run(*rule, trace, 64);
    EXPECT_EQ(out.size(), 5005U);
    EXPECT_EQ(sources_of(out).size(), 55U);
    EXPECT_EQ(rule->counts().at("added"), 4004U);
    EXPECT_EQ(rule->counts().at("inside_prefix"), 0U);
    std::map<std::pair<IpAddress, std::uint32_t>, IpAddress> copies;
    for (size_t i = 0; i < out.size(); ++i) {
        const Owned& original = trace[i / 5];
        ASSERT_EQ(out[i].time, original.time);
        ASSERT_EQ(out[i].message, original.message);
        const auto key = std::pair(original.source.address, static_cast<std::uint32_t>(i % 5));
        const auto entry = copies.try_emplace(key, out[i].source.address).first;
        ASSERT_EQ(entry->second, out[i].source.address) << "a source's copies stay the same";
        ASSERT_EQ(out[i].source.address.family, original.source.address.family);
    }
    EXPECT_EQ(out[0].source, trace[0].source);
}

TEST(DuplicateRule, ConnectionsOfCopiesAreTheirOwn) {
    const std::vector<Owned> trace{tcp_at(kStart, 1), tcp_at(kStart, 2, "192.0.2.2"),
                                   tcp_at(kStart, 1), close_at(kStart, 1),
                                   close_at(kStart, 2, "192.0.2.2")};
    std::map<std::uint64_t, std::set<IpAddress>> users;
    const auto out = run("duplicate", "3", trace);
    EXPECT_EQ(out.size(), 15U);
    for (const Owned& query : out) {
        users[query.connection].insert(query.source.address);
    }
    EXPECT_EQ(users.size(), 6U);
    for (const auto& [connection, sources] : users) {
        EXPECT_EQ(sources.size(), 1U) << connection;
    }
}

TEST(DuplicateRule, ClosesGoWithWhatWasCopied) {
    const std::vector<Owned> trace{tcp_at(kStart, 1), tcp_at(kStart, 2, "192.0.2.2"),
                                   close_at(kStart, 1), close_at(kStart, 2, "192.0.2.2")};
    const auto out = run("duplicate", "2,where.source=192.0.2.2", trace);
    EXPECT_EQ(out.size(), 6U);
    EXPECT_EQ(std::ranges::count_if(out, &Owned::is_close), 3);
}

TEST(DuplicateRule, ClosesAreOfTheirSourcesConnection) {
    const std::vector<Owned> trace{tcp_at(kStart, 1), tcp_at(kStart, 1, "192.0.2.2"),
                                   close_at(kStart, 1), close_at(kStart, 1, "192.0.2.2")};
    for (const std::string source : {"192.0.2.1", "192.0.2.2"}) {
        const auto out = run("duplicate", "2,where.source=" + source, trace);
        std::vector<IpAddress> closes;
        for (size_t i = 0; i + 1 < out.size(); ++i) { // a copy's close is behind the original's
            if (out[i + 1].is_close() && out[i + 1].connection % 2 == 1) {
                closes.push_back(out[i].source.address);
            }
        }
        EXPECT_EQ(closes, std::vector{*IpAddress::parse(source)});
    }
}

TEST(DuplicateRule, ConnectionNumbersDoNotOverflow) {
    const std::uint64_t most = ((1UL << 48U) - 1) / 10'000;
    EXPECT_EQ(run("duplicate", "10000", {tcp_at(kStart, most - 1)}).back().connection,
              most * 10'000 - 1);
    EXPECT_THROW(run("duplicate", "10000", {tcp_at(kStart, most)}), Error);
}

/// The greatest batch that the rule emits.
size_t most_at_once(Rule& rule, const std::vector<Owned>& trace) {
    Batch batch;
    fill(batch, trace, 0, trace.size());
    rule.apply(batch);
    size_t most = batch.queries.size();
    while (rule.has_more()) {
        batch.clear();
        rule.apply(batch);
        most = std::max(most, batch.queries.size());
    }
    return most;
}

TEST(DuplicateRule, ComesInPieces) {
    const auto rule = make_rule("duplicate", "10000");
    EXPECT_EQ(most_at_once(*rule, steady(20, kSecond, kStart)), PiecewiseRule::kItems);
    EXPECT_EQ(rule->counts().at("added"), 199'980U);
    const auto out = run("duplicate", "10000", steady(5, kSecond, kStart));
    EXPECT_EQ(out.size(), 50'000U);
    EXPECT_EQ(out, run("duplicate", "10000", steady(5, kSecond, kStart), 2));
    EXPECT_EQ(sources_of(out).size(), 50'000U);
}

TEST(DuplicateRule, PiecesOfLargeMessagesAreSmaller) {
    auto trace = steady(2, kSecond, kStart);
    trace[1].message.resize(65'535);
    const auto rule = make_rule("duplicate", "1000");
    EXPECT_LE(most_at_once(*rule, trace), 1'000U + PiecewiseRule::kBytes / 65'535 + 1);
}

TEST(AttackRule, ComesInPieces) {
    const auto rule = make_rule("attack", "1000,for=1000,name=x.,poisson=off");
    EXPECT_EQ(most_at_once(*rule, steady(2, 100 * kSecond, kStart)), PiecewiseRule::kItems);
    EXPECT_EQ(rule->counts().at("added"), 100'001U);
}

TEST(DuplicateRule, CopiesAreEditedAlone) {
    const auto rule = make_rule("duplicate", "2");
    Batch batch;
    fill(batch, {query_at(kStart)}, 0, 1);
    rule->apply(batch);
    ASSERT_EQ(batch.queries.size(), 2U);
    writable(batch.queries[1].message)[0] = 0xff;
    EXPECT_EQ(batch.queries[0].message[0], 0);
}

TEST(DuplicateRule, TellsWhatIsShort) {
    const auto rule = make_rule("duplicate", "2,prefix=192.0.2.0/29");
    run(*rule, steady(10, 1, kStart));
    EXPECT_EQ(rule->counts().at("inside_prefix"), 7U);
    EXPECT_EQ(rule->counts().at("shared_addresses"), 4U);
}

TEST(CollapseRule, DropsRetransmitsWithinTheTimeout) {
    const auto other = query_at(kStart + 10, "192.0.2.1", 2);
    auto late = query_at(kStart + 2 * kSecond);
    const std::vector<Owned> trace{query_at(kStart),
                                   query_at(kStart + kSecond),
                                   other,
                                   query_at(kStart + kSecond, "192.0.2.2"),
                                   query_at(kStart + kSecond, "192.0.2.1", 1, "WWW.example"),
                                   late,
                                   query_at(kStart + 2 * kSecond + 1),
                                   tcp_at(late.time, 1),
                                   tcp_at(late.time, 1)};
    const auto rule = make_rule("collapse", "timeout=2");
    const auto out = run(*rule, trace, 2);
    EXPECT_EQ(out.size(), 7U);
    EXPECT_EQ(rule->counts().at("dropped"), 2U);
    EXPECT_EQ(out[4].time, late.time);
}

TEST(HeavyRule, KeepsTheBusiest) {
    std::vector<Owned> trace;
    trace.reserve(30);
    for (int i = 0; i < 30; ++i) {
        trace.push_back(query_at(kStart + i, i % 3 == 0   ? "192.0.2.9"
                                             : i % 3 == 1 ? "192.0.2.2"
                                                          : "192.0.2.3"));
    }
    trace.push_back(query_at(kStart + 30, "192.0.2.9"));
    trace.push_back(close_at(kStart + 31, 1, "192.0.2.3"));
    trace.push_back(close_at(kStart + 31, 2, "192.0.2.9"));
    const auto rule = make_rule("heavy", "2");
    EXPECT_TRUE(rule->surveys());
    const auto out = run(*rule, trace, 8);
    EXPECT_EQ(sources_of(out),
              (std::set{*IpAddress::parse("192.0.2.2"), *IpAddress::parse("192.0.2.9")}))
        << "ties are decided by address";
    EXPECT_EQ(out.size(), 22U);
    EXPECT_EQ(rule->counts().at("dropped"), 10U);
    EXPECT_EQ(run("heavy", "top=99", trace).size(), trace.size());
}

TEST(HeavyRule, CountsWhatItsFilterTakes) {
    std::vector<Owned> trace;
    for (int i = 0; i < 10; ++i) {
        trace.push_back(query_at(kStart + i, "192.0.2.1", 1, "a.example"));
        trace.push_back(query_at(kStart + i, "192.0.2.2", 1, "a.test"));
    }
    trace.push_back(query_at(kStart + 20, "192.0.2.2", 1, "a.test"));
    const auto out = run("heavy", "1,where.name=example", trace);
    EXPECT_EQ(out.size(), trace.size()) << "192.0.2.1 asks most below example";
}

TEST(AttackRule, MixesInItsRate) {
    auto trace = steady(1000, 10 * kMillisecond, kStart);
    for (const size_t cut : {1U, 100U}) {
        const auto rule = make_rule(
            "attack", "rate=500,at=2,for=4,sources=50,name=victim.example.,type=AAAA,poisson=off");
        const auto out = run(*rule, trace, cut);
        EXPECT_TRUE(std::ranges::is_sorted(times_of(out)));
        EXPECT_EQ(out.size(), 3000U);
        EXPECT_EQ(rule->counts().at("added"), 2000U);
        std::vector<Owned> attack;
        std::ranges::copy_if(out, std::back_inserter(attack), [](const Owned& query) {
            return parse_question(query.message)->type == 28;
        });
        ASSERT_EQ(attack.size(), 2000U);
        EXPECT_EQ(sources_of(attack).size(), 50U);
        std::set<std::string> names;
        for (size_t i = 0; i < attack.size(); ++i) {
            ASSERT_EQ(attack[i].time,
                      kStart + 2 * kSecond + static_cast<Nanoseconds>(i) * 2 * kMillisecond);
            ASSERT_EQ(attack[i].destination, trace[0].destination);
            const auto question = parse_question(attack[i].message);
            ASSERT_EQ(question->raw.size() + kDnsHeaderSize, attack[i].message.size());
            names.insert(name_text(question->name));
            EXPECT_THAT(*names.begin(), ::testing::EndsWith(".victim.example."));
        }
        EXPECT_EQ(names.size(), 2000U);
    }
}

TEST(AttackRule, PoissonFixedNameAndTcp) {
    const auto trace = steady(2000, 10 * kMillisecond, kStart);
    const auto out = run("attack", "1000,for=100,fixed=a.example,transport=tcp,rd=on", trace, 64);
    EXPECT_TRUE(std::ranges::is_sorted(times_of(out)));
    EXPECT_NEAR(static_cast<double>(out.size() - 2000), 20'000, 600) << "to the trace's end only";
    const auto query = std::ranges::find(out, Transport::kTcp, &Owned::transport);
    ASSERT_NE(query, out.end());
    EXPECT_EQ(name_text(parse_question(query->message)->name), "a.example.");
    EXPECT_EQ(query->message[2], 1);
    EXPECT_EQ(out, run("attack", "1000,for=100,fixed=a.example,transport=tcp,rd=on", trace, 1));
    EXPECT_NE(out, run("attack", "1000,for=100,fixed=a.example,transport=tcp,rd=on", trace, 1, 2));
}

TEST(AttackRule, SixGoesToSix) {
    auto trace = steady(10, kSecond, kStart);
    const auto out = run("attack", "10,for=5,prefix=2001:db8:1::/64,fixed=.", trace);
    for (const Owned& query : out) {
        EXPECT_EQ(query.source.address.family, query.destination.address.family);
    }
}

TEST(VolumeRules, Mistakes) {
    EXPECT_THAT(complaint("duplicate", "0"), HasSubstr("copies"));
    EXPECT_THAT(complaint("duplicate", "2,prefix=10.0.0.0/31"), HasSubstr("2 bits"));
    EXPECT_THAT(complaint("duplicate", "2,prefix=10.0.0.0/8,11.0.0.0/8"), HasSubstr("one prefix"));
    EXPECT_THAT(complaint("duplicate", "share=5"), HasSubstr("no copies="));
    EXPECT_THAT(complaint("heavy", "share=5"), HasSubstr("no top="));
    EXPECT_THAT(complaint("collapse", "0"), HasSubstr("timeout"));
    EXPECT_THAT(complaint("attack", "10,fixed=a"), HasSubstr("for="));
    EXPECT_THAT(complaint("attack", "10,for=1"), HasSubstr("either name="));
    EXPECT_THAT(complaint("attack", "10,for=1,fixed=a,name=b"), HasSubstr("either name="));
    EXPECT_THAT(complaint("attack", "10,for=x,fixed=a"), HasSubstr("seconds"));
    EXPECT_THAT(complaint("attack", "10,for=1,fixed=a,type=AAAB"), HasSubstr("AAAA"));
    EXPECT_THAT(complaint("attack", "10,for=1,fixed=a,sources=9,prefix=10.0.0.0/29"),
                HasSubstr("room for 6"));
    EXPECT_THAT(complaint("attack", "10,for=1,fixed=a,share=2"), HasSubstr("no share"));
    EXPECT_THAT(complaint("attack", "10,for=1,name=" + std::string(63, 'a') + "." +
                                        std::string(63, 'a') + "." + std::string(63, 'a') + "." +
                                        std::string(59, 'a')),
                HasSubstr("too long"));
}

TEST(VolumeRules, TheSameWhateverTheBatches) {
    auto trace = steady(2000, kMillisecond, kStart);
    for (std::uint64_t i = 0; i < 300; ++i) {
        trace.push_back(i % 3 == 2 ? close_at(trace.back().time + 10, i / 3)
                                   : tcp_at(trace.back().time + kMillisecond, i / 3));
    }
    for (const auto& [kind, value] :
         std::vector<std::pair<std::string, std::string>>{{"duplicate", "3"},
                                                          {"duplicate", "2,share=50"},
                                                          {"duplicate", "2,share=50,by=query"},
                                                          {"collapse", "5"},
                                                          {"heavy", "4"},
                                                          {"attack", "700,for=9,name=x."}}) {
        const auto whole = run(kind, value, trace);
        for (const size_t cut : {1U, 7U, 1000U}) {
            EXPECT_EQ(run(kind, value, trace, cut), whole) << kind << " " << cut;
        }
    }
}

} // namespace
} // namespace reprise::rules

// NOLINTEND(bugprone-unchecked-optional-access)
