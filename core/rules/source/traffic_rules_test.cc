#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/testing/rules.hh"
#include "core/testing/support.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access)
namespace reprise::rules {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

const std::string kKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

IpAddress ip(const std::string& text) { return *IpAddress::parse(text); }

/// `count` queries from `sources` IPv4 and IPv6 sources in turn.
std::vector<Owned> crowd(size_t count, size_t sources) {
    std::vector<Owned> trace;
    for (size_t i = 0; i < count; ++i) {
        const size_t source = i % sources;
        const std::string text = source % 8 == 0 ? "2001:db8::" + std::to_string(source)
                                                 : "10.1." + std::to_string(source / 200) + "." +
                                                       std::to_string(source % 200);
        trace.push_back(query_at(static_cast<Nanoseconds>(i), text));
    }
    return trace;
}

size_t with(const std::vector<Owned>& trace, Transport transport) {
    return static_cast<size_t>(std::ranges::count(trace, transport, &Owned::transport));
}

TEST(TransportRule, MovesAllQueriesToTcpAndBack) {
    const auto trace = crowd(1000, 100);
    const auto rule = make_rule("transport", "tcp");
    const auto tcp = run(*rule, trace);
    EXPECT_EQ(with(tcp, Transport::kTcp), 1000U);
    EXPECT_EQ(rule->counts(),
              (RuleCounts{{"seen", 1000}, {"matched", 1000}, {"changed", 1000}, {"to_tcp", 1000}}));
    EXPECT_EQ(run("transport", "tcp", tcp), tcp);
    EXPECT_EQ(run("transport", "udp", tcp), trace);
}

TEST(TransportRule, MixesStickToSources) {
    const auto trace = crowd(20'000, 4000);
    const auto out = run("transport", "udp:75,tcp:20,tls:5", trace);
    std::map<IpAddress, std::set<Transport>> transports;
    for (const Owned& query : out) {
        transports[query.source.address].insert(query.transport);
    }
    for (const auto& [source, seen] : transports) {
        EXPECT_EQ(seen.size(), 1U) << source.text();
    }
    EXPECT_NEAR(static_cast<double>(with(out, Transport::kTcp)), 4000, 400);
    EXPECT_NEAR(static_cast<double>(with(out, Transport::kTls)), 1000, 200);
    EXPECT_EQ(run("transport", "udp:75,tcp:20,tls:5", trace, 7), out);
    EXPECT_NE(run("transport", "udp:75,tcp:20,tls:5", trace, 7, 2), out);
}

TEST(TransportRule, ShareBySourceAndMixAreIndependent) {
    const auto out = run("transport", "tcp,tls,share=50", crowd(8000, 8000));
    EXPECT_NEAR(static_cast<double>(with(out, Transport::kTcp)), 2000, 200);
    EXPECT_NEAR(static_cast<double>(with(out, Transport::kTls)), 2000, 200);
}

TEST(TransportRule, ShareByQueryIsExact) {
    const auto out = run("transport", "tcp,share=12.5,by=query", crowd(8000, 50));
    EXPECT_EQ(with(out, Transport::kTcp), 1000U);
}

TEST(TransportRule, TlsTakesOverConnectionsAndCloses) {
    const std::vector<Owned> trace{tcp_at(1, 5), tcp_at(2, 5), close_at(3, 5)};
    auto expected = trace;
    for (Owned& query : expected) {
        query.transport = Transport::kTls;
    }
    EXPECT_EQ(run("transport", "tls", trace), expected);
    EXPECT_EQ(run("transport", "tls,where.type=A", trace), expected);
}

TEST(TransportRule, QueriesThatLeaveTcpHaveNoConnectionAndNoClose) {
    const std::vector<Owned> trace{tcp_at(1, 5), tcp_at(2, 5), close_at(3, 5)};
    for (const char* value :
         {"udp", "stateless-tcp", "udp,where.type=A", "udp,share=100,by=query"}) {
        const auto rule = make_rule("transport", value);
        const auto out = run(*rule, trace, 1);
        ASSERT_EQ(out.size(), 2U) << value;
        EXPECT_EQ(out[0].connection, 0U);
        EXPECT_EQ(out[1].connection, 0U);
        EXPECT_THAT(rule->counts(), Contains(Pair("closes_dropped", 1)));
    }
}

TEST(TransportRule, AConnectionOfWhichOneQueryStaysKeepsItsClose) {
    std::vector<Owned> trace{tcp_at(1, 5), tcp_at(2, 5), close_at(3, 5)};
    trace[1].message = query_bytes(1, "www.example", 28);
    const auto out = run("transport", "udp,where.type=A", trace);
    ASSERT_EQ(out.size(), 3U);
    EXPECT_EQ(out[0].connection, 0U);
    EXPECT_EQ(out[2], trace[2]);
}

TEST(TransportRule, AConnectionOnTwoTransportsClosesOnBoth) {
    std::vector<Owned> trace{tcp_at(1, 5), tcp_at(2, 5), close_at(3, 5), query_at(4)};
    trace[1].message = query_bytes(1, "www.example", 28);
    const auto out = run("transport", "tls,where.type=A", trace);
    ASSERT_EQ(out.size(), 5U);
    EXPECT_EQ(out[2].transport, Transport::kTcp);
    EXPECT_EQ(out[3].transport, Transport::kTls);
    EXPECT_TRUE(out[3].is_close());
    EXPECT_EQ(out[3].connection, 5U);
    EXPECT_EQ(out[4].transport, Transport::kTls);
    EXPECT_FALSE(out[4].is_close());
}

TEST(TransportRule, RefusesWhatItCannotDo) {
    EXPECT_THAT(complaint("transport", "to=quic"), HasSubstr("\"quic\" is not known"));
    EXPECT_THAT(complaint("transport", "share=5"), HasSubstr("needs to="));
}

TEST(ClassRule, SetsClassesBySource) {
    const auto rule = make_rule("class", "rtt=20:50,80:50,idle=7");
    Batch batch;
    fill(batch, crowd(4000, 1000), 0, 4000);
    rule->apply(batch);
    std::map<IpAddress, std::set<int>> classes;
    size_t near = 0;
    for (const Query& query : batch.queries) {
        EXPECT_EQ(query.idle_class, 7);
        classes[query.source.address].insert(query.rtt_class);
        near += query.rtt_class == 20 ? 1 : 0;
    }
    for (const auto& [source, seen] : classes) {
        EXPECT_EQ(seen.size(), 1U);
    }
    EXPECT_NEAR(static_cast<double>(near), 2000, 300);
    EXPECT_THAT(rule->counts(), Contains(Pair("changed", 4000)));
    const std::vector<Query> before = batch.queries;
    rule->apply(batch);
    EXPECT_THAT(rule->counts(),
                AllOf(Contains(Pair("changed", 4000)), Contains(Pair("seen", 8000))));
}

TEST(ClassRule, RefusesClassesOutOfRange) {
    EXPECT_EQ(complaint("class", "rtt=0"), "--class, key rtt: \"0\" is not a whole number of ms "
                                           "from 1 to 65535");
    EXPECT_THAT(complaint("class", "idle=65536"), HasSubstr("whole number of s"));
    EXPECT_THAT(complaint("class", "rtt=1.5"), HasSubstr("whole number"));
    EXPECT_THAT(complaint("class", "share=5"), HasSubstr("needs rtt="));
}

TEST(KeepAndDrop, AreComplements) {
    const auto trace = crowd(10'000, 100);
    for (const char* value : {"share=30", "share=30,by=source", "where.source=10.1.0.0/24",
                              "where.source=10.1.0.0/24,share=10"}) {
        const auto keep = make_rule("keep", value);
        const auto drop = make_rule("drop", value);
        const size_t kept = run(*keep, trace).size();
        const size_t left = run(*drop, trace).size();
        EXPECT_EQ(kept + left, trace.size()) << value;
        EXPECT_THAT(keep->counts(), Contains(Pair("dropped", left)));
        EXPECT_THAT(drop->counts(), Contains(Pair("dropped", kept)));
    }
}

TEST(KeepAndDrop, ClosesShareTheFateOfTheirQueries) {
    std::vector<Owned> trace{tcp_at(1, 5),   tcp_at(2, 6),   tcp_at(3, 7),  tcp_at(4, 7),
                             close_at(5, 5), close_at(6, 6), close_at(7, 7)};
    trace[1].message = query_bytes(1, "www.example", 28);
    trace[3].message = query_bytes(1, "www.example", 28);
    const auto connections = [](const std::vector<Owned>& out) {
        std::vector<std::uint64_t> closes;
        for (const Owned& query : out) {
            if (query.is_close()) {
                closes.push_back(query.connection);
            }
        }
        return closes;
    };
    EXPECT_EQ(connections(run("keep", "where.type=A", trace)), (std::vector<std::uint64_t>{5, 7}));
    EXPECT_EQ(connections(run("drop", "where.type=A", trace)), (std::vector<std::uint64_t>{6, 7}));
    EXPECT_TRUE(run("drop", "where.transport=tcp", trace).empty());
    EXPECT_TRUE(run("keep", "where.transport=udp", trace).empty());
}

TEST(KeepAndDrop, WithoutAChoiceAreRefused) {
    EXPECT_THAT(complaint("keep", ""), HasSubstr("keeps every query"));
    EXPECT_THAT(complaint("drop", "share=100"), HasSubstr("drops every query"));
    EXPECT_THAT(complaint("drop", "spoofed=off"), HasSubstr("drops every query"));
    EXPECT_THAT(complaint("keep", "spoofed=on"), HasSubstr("key spoofed: is not known"));
    EXPECT_THAT(complaint("keep", "shar=5"), HasSubstr("did you mean share?"));
}

TEST(Drop, SpoofedSources) {
    std::vector<Owned> trace;
    for (const char* source : {"0.1.2.3", "10.255.0.1", "127.0.0.1", "169.254.3.4",
                               "172.31.255.255", "192.168.1.1", "224.0.0.1", "255.255.255.255",
                               "::", "::1", "fe80::1", "febf::1", "fd00::1", "ff02::1"}) {
        trace.push_back(query_at(0, source));
    }
    const size_t bad = trace.size();
    for (const char* source : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "172.32.0.1", "192.167.0.1",
                               "223.255.255.255", "2001:500::1", "::2", "fec0::1"}) {
        trace.push_back(query_at(1, source));
    }
    const auto rule = make_rule("drop", "spoofed=on");
    const auto out = run(*rule, trace);
    EXPECT_EQ(out.size(), trace.size() - bad);
    EXPECT_THAT(out, Each(::testing::Field(&Owned::time, 1)));
    EXPECT_THAT(rule->counts(),
                AllOf(Contains(Pair("seen", trace.size())), Contains(Pair("dropped", bad))));
}

TEST(Drop, TimesOfSpoofedSourcesCountFromTheFirstQueryOfAll) {
    const std::vector<Owned> trace{query_at(0, "1.1.1.1"), query_at(5 * kSecond, "10.0.0.1"),
                                   query_at(12 * kSecond, "10.0.0.1")};
    EXPECT_EQ(run("drop", "spoofed=on,where.from=10", trace),
              std::vector(trace.begin(), trace.begin() + 2));
}

TEST(Remap, IsOneToOneWhileThereIsRoom) {
    const auto trace = crowd(2000, 500);
    const auto rule = make_rule("remap", "198.18.0.0/22,2001:db8:1::/64");
    const auto out = run(*rule, trace, 333);
    std::map<IpAddress, IpAddress> to;
    std::set<IpAddress> seen;
    for (size_t i = 0; i < trace.size(); ++i) {
        const auto& address = out[i].source.address;
        EXPECT_EQ(address.family, trace[i].source.address.family);
        EXPECT_EQ(to.try_emplace(trace[i].source.address, address).first->second, address);
        seen.insert(address);
    }
    EXPECT_EQ(seen.size(), 500U);
    EXPECT_EQ(out[1].source.address, ip("198.18.0.1"));
    EXPECT_EQ(out[0].source.address, ip("2001:db8:1::1"));
    EXPECT_THAT(rule->counts(),
                AllOf(Contains(Pair("sources", 500)), Contains(Pair("changed", 2000)),
                      Not(Contains(Pair("shared", ::testing::_)))));
}

TEST(Remap, SharesWhenTheRoomIsUsedUp) {
    const auto rule = make_rule("remap", "198.18.0.0/29");
    const auto out = run(*rule, crowd(100, 10));
    std::set<IpAddress> seen;
    for (const Owned& query : out) {
        seen.insert(query.source.address);
        EXPECT_NE(query.source.address, ip("198.18.0.0"));
        EXPECT_NE(query.source.address, ip("198.18.0.7"));
    }
    EXPECT_LE(seen.size(), 6U);
    EXPECT_THAT(rule->counts(), AllOf(Contains(Pair("sources", 6)), Contains(Pair("shared", 40))));
    EXPECT_EQ(run("remap", "198.18.0.0/29", crowd(100, 10), 3), out);
    EXPECT_EQ(run("remap", "198.18.0.9/32", crowd(10, 3))[2].source.address, ip("198.18.0.9"));
}

TEST(Remap, MovesTheOtherFamilyIntoTheOnlyPrefix) {
    const auto rule = make_rule("remap", "2001:db8:7::/48");
    auto trace = crowd(16, 16);
    trace[0].destination.address = ip("2001:500:84::b");
    const auto out = run(*rule, trace);
    EXPECT_EQ(out[0].destination.address, ip("2001:500:84::b"));
    EXPECT_EQ(out[1].destination.address, ip("2001:db8::53"));
    EXPECT_TRUE(out[1].source.address.is_v6());
    EXPECT_THAT(rule->counts(), Contains(Pair("family_changed", 14)));
}

TEST(Remap, RefusesOddPrefixes) {
    EXPECT_THAT(complaint("remap", ""), HasSubstr("needs to="));
    EXPECT_THAT(complaint("remap", "10.0.0.0/8,11.0.0.0/8"), HasSubstr("one IPv4 and one IPv6"));
    EXPECT_THAT(complaint("remap", "10.0.0.1/8"), HasSubstr("is not a prefix"));
}

TEST(ConnectionChoices, ForgetTheOldest) {
    ConnectionChoices choices(10);
    const Endpoint source{ip("192.0.2.1"), 5};
    for (std::uint64_t connection = 1; connection <= 20; ++connection) {
        choices.add(source, connection, 1);
    }
    EXPECT_EQ(choices.take(source, 10), std::nullopt);
    EXPECT_EQ(choices.take(source, 11), 1);
    EXPECT_EQ(choices.take(source, 11), std::nullopt);
    choices.add(source, 0, 1);
    EXPECT_EQ(choices.take(source, 0), std::nullopt);
}

/// An OPT record with one option.
void add_option(Owned& query, std::uint8_t code, const std::vector<std::uint8_t>& data) {
    query.message[11] = 1;
    const auto size = static_cast<std::uint8_t>(data.size());
    query.message.insert(
        query.message.end(),
        {0, 0, 41, 4, 208, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(size + 4), 0, code, 0, size});
    query.message.insert(query.message.end(), data.begin(), data.end());
}

std::vector<std::uint8_t> tail(const Owned& query, size_t size) {
    return {query.message.end() - static_cast<std::ptrdiff_t>(size), query.message.end()};
}

TEST(Anonymize, SourcesAndWhereAskedDestinations) {
    auto trace = std::vector{query_at(0, "192.0.2.1"), query_at(1, "2001:db8::1"),
                             close_at(2, 5, "192.0.2.1")};
    const auto out = run("anonymize", kKey, trace);
    EXPECT_EQ(out[0].source.address, ip("2.90.93.17"));
    EXPECT_EQ(out[0].source.port, 4000);
    EXPECT_EQ(out[0].destination, trace[0].destination);
    EXPECT_EQ(out[1].source.address, ip("dd92:2c44:3fc0:ff1e:7ff9:c7f0:8180:7e00"));
    EXPECT_EQ(out[2].source.address, ip("2.90.93.17"));
    trace[0].destination.address = ip("192.0.2.1");
    EXPECT_EQ(run("anonymize", "key=" + kKey + ",destination=on", trace)[0].destination.address,
              ip("2.90.93.17"));
}

TEST(Anonymize, EcsKeepsItsPrefixLengthAndNothingBehindIt) {
    std::vector<Owned> trace(5, query_at(0, "192.0.2.1"));
    add_option(trace[0], 8, {0, 1, 32, 0, 192, 0, 2, 1});
    add_option(trace[1], 8, {0, 1, 20, 0, 192, 0, 0xf});
    add_option(trace[2], 8, {0, 2, 24, 0, 0x20, 0x01, 0x0d});
    add_option(trace[3], 10, {1, 2, 3, 4, 5, 6, 7, 8});
    add_option(trace[4], 8, {0, 1, 0, 0});
    const auto rule = make_rule("anonymize", kKey);
    const auto out = run(*rule, trace);
    EXPECT_EQ(tail(out[0], 8), (std::vector<std::uint8_t>{0, 1, 32, 0, 2, 90, 93, 17}));
    EXPECT_EQ(tail(out[1], 5), (std::vector<std::uint8_t>{20, 0, 2, 90, 0x50}));
    EXPECT_EQ(tail(out[2], 5), (std::vector<std::uint8_t>{24, 0, 0xdd, 0x92, 0x2c}));
    EXPECT_EQ(out[3].message, trace[3].message);
    EXPECT_EQ(out[4].message, trace[4].message);
    EXPECT_THAT(rule->counts(), Contains(Pair("ecs", 4)));
}

TEST(Anonymize, OddEcsLeaksNothing) {
    std::vector<Owned> trace(4, query_at(0, "192.0.2.1"));
    add_option(trace[0], 8, {0, 9, 32, 0, 192, 0, 2, 1});          // unknown family
    add_option(trace[1], 8, {0, 1, 200, 0, 192, 0, 2, 1, 77, 78}); // too long
    add_option(trace[2], 8, {0, 1, 8, 0, 192, 0, 2, 1});           // bits behind the prefix
    add_option(trace[3], 8, {0, 1, 32});                           // cut
    const auto rule = make_rule("anonymize", kKey);
    const auto out = run(*rule, trace);
    EXPECT_EQ(tail(out[0], 4), (std::vector<std::uint8_t>{0, 0, 0, 0}));
    EXPECT_EQ(tail(out[1], 6), (std::vector<std::uint8_t>{2, 90, 93, 17, 0, 0}));
    EXPECT_EQ(tail(out[2], 4), (std::vector<std::uint8_t>{2, 0, 0, 0}));
    EXPECT_THAT(rule->counts(), Contains(Pair("ecs_malformed", 4)));
}

TEST(Anonymize, MalformedMessagesAreDroppedUnlessTheRuleKeepsThem) {
    auto trace = std::vector{query_at(0), query_at(1)};
    trace[0].message.resize(20);
    const auto keeping = make_rule("anonymize", kKey + ",malformed=keep");
    EXPECT_EQ(run(*keeping, trace).size(), 2U);
    EXPECT_THAT(keeping->counts(), Contains(Pair("malformed", 1)));
    EXPECT_FALSE(keeping->counts().contains("dropped"));
    const auto dropping = make_rule("anonymize", kKey);
    EXPECT_EQ(run(*dropping, trace).size(), 1U);
    EXPECT_THAT(dropping->counts(), IsSupersetOf({Pair("dropped", 1), Pair("malformed", 1)}));
    EXPECT_EQ(run("anonymize", kKey + ",malformed=drop", trace).size(), 1U);
    EXPECT_THAT(complaint("anonymize", kKey + ",malformed=kep"), HasSubstr("did you mean keep"));
}

TEST(Anonymize, NoSubnetHidesWhereItDoesNotLook) {
    std::vector<Owned> trace(8, query_at(0, "192.0.2.1"));
    for (Owned& query : trace) {
        add_option(query, 8, {0, 1, 24, 0, 192, 0, 2});
    }
    const std::vector<std::uint8_t> opt(trace[0].message.end() - 22, trace[0].message.end());
    trace[0].message[11] = 0; // not counted
    trace[1].message[11] = 0; // among the answers
    trace[1].message[7] = 1;
    trace[2].message[11] = 0; // in the authority section
    trace[2].message[9] = 1;
    trace[3].message.insert(trace[3].message.end(), opt.begin(), opt.end()); // behind all
    trace[4].message.insert(trace[4].message.end(), opt.begin(), opt.end()); // two
    trace[4].message[11] = 2;
    trace[5].message[11] = 2;                            // announced, not there
    trace[6].message[trace[6].message.size() - 10] = 10; // another option, too long
    trace[6].message[trace[6].message.size() - 8] = 40;
    const auto rule = make_rule("anonymize", kKey);
    EXPECT_EQ(run(*rule, trace).size(), 1U); // the last
    EXPECT_THAT(rule->counts(),
                IsSupersetOf({Pair("dropped", 7), Pair("malformed", 7), Pair("ecs", 2)}));
    const auto kept = run("anonymize", kKey + ",malformed=keep", trace);
    EXPECT_EQ(kept.size(), 8U);
    EXPECT_EQ(kept[1].message, trace[1].message);
    EXPECT_NE(kept[3].message, trace[3].message) << "what is found is changed";
}

TEST(Anonymize, CountsNamesThatHoldAddresses) {
    const auto trace = std::vector{query_at(0, "192.0.2.1", 1, "1.2.0.192.IN-ADDR.arpa"),
                                   query_at(0, "192.0.2.1", 1, "www.example")};
    const auto rule = make_rule("anonymize", kKey);
    EXPECT_EQ(run(*rule, trace)[0].message, trace[0].message);
    EXPECT_THAT(rule->counts(), Contains(Pair("reverse_names", 1)));
}

TEST(Anonymize, KeysFromFilesAndBadKeys) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("key")) << "  " << kKey << "\n";
    std::ofstream(folder.file("short")) << kKey.substr(2);
    std::ofstream(folder.file("empty")).close();
    EXPECT_EQ(complaint("anonymize", "@" + folder.file("key")), "");
    for (const std::string& value :
         {"@" + folder.file("short"), kKey + "00", "x" + kKey.substr(1), kKey.substr(0, 32)}) {
        EXPECT_THAT(complaint("anonymize", value),
                    AllOf(HasSubstr("is not 64 hex digits"), Not(HasSubstr(kKey.substr(4, 20)))));
    }
    EXPECT_THAT(complaint("anonymize", "@" + folder.file("empty")), HasSubstr("it is empty"));
    EXPECT_THAT(complaint("anonymize", "@" + folder.file("no")), HasSubstr("No such file"));
    EXPECT_THAT(complaint("anonymize", ""), HasSubstr("needs key=@FILE"));
}

TEST(AllTrafficRules, AreTheSameHoweverBatchesAreCut) {
    auto trace = crowd(3000, 77);
    for (size_t i = 0; i < trace.size(); i += 5) {
        trace[i].transport = Transport::kTcp;
        trace[i].connection = i / 50 + 1;
    }
    for (size_t i = 49; i < trace.size(); i += 50) {
        trace[i].transport = Transport::kTcp;
        trace[i].connection = i / 50 + 1;
        trace[i].source = trace[i / 50 * 50].source;
        trace[i].message.clear();
    }
    const std::vector<std::pair<std::string, std::string>> rules{
        {"transport", "udp:50,tls:50,share=40,by=query"},
        {"transport", "udp:50,tcp:50"},
        {"class", "rtt=5:1,9:2,share=30"},
        {"keep", "share=33.3"},
        {"drop", "share=20,by=source"},
        {"remap", "198.18.0.0/28"},
        {"anonymize", kKey}};
    for (const auto& [kind, value] : rules) {
        const auto whole = run(kind, value, trace, 4096);
        EXPECT_EQ(run(kind, value, trace, 1), whole) << kind;
        EXPECT_EQ(run(kind, value, trace, 37), whole) << kind;
        const auto rule = make_rule(kind, value);
        run(*rule, trace);
        const RuleCounts counts = rule->counts();
        const auto queries = trace.size() - trace.size() / 50;
        EXPECT_THAT(counts, Contains(Pair("seen", queries))) << kind;
        EXPECT_TRUE(counts.contains("matched") && counts.contains("changed")) << kind;
    }
}

} // namespace
} // namespace reprise::rules

// NOLINTEND(bugprone-unchecked-optional-access)
