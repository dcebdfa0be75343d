#include "core/base/bytes.hh"
#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "mutator/synth/query_names.hh"
#include "mutator/test_support.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

/// The name of a query made for it, in presentation form.
std::string text_of(const QueryName& name) {
    std::vector<std::uint8_t> message;
    build_query(message, {.type = 1}, name.bytes());
    const auto question = parse_question(message);
    return question ? name_text(question->name) : "unreadable";
}

std::string last_label(const std::string& name) {
    const size_t dot = name.rfind('.', name.size() - 2);
    return name.substr(dot == std::string::npos ? 0 : dot + 1);
}

TEST(Query, HeaderQuestionAndOpt) {
    std::vector<std::uint8_t> message;
    build_query(message,
                {.id = 0x1234,
                 .type = 28,
                 .recursion_desired = true,
                 .edns = true,
                 .dnssec_ok = true,
                 .edns_size = 1232},
                wire_name("www.example").bytes());
    const auto header = parse_header(message);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->id, 0x1234);
    EXPECT_EQ(header->flags, 0x0100);
    const auto question = parse_question(message);
    ASSERT_TRUE(question);
    EXPECT_EQ(name_text(question->name), "www.example.");
    EXPECT_EQ(question->type, 28);
    EXPECT_EQ(question->dns_class, 1);
    const auto edns = parse_edns(message);
    ASSERT_TRUE(edns);
    EXPECT_EQ(edns->udp_size, 1232);
    EXPECT_TRUE(edns->dnssec_ok);
}

TEST(Query, WithoutEdnsAndAtTheRoot) {
    std::vector<std::uint8_t> message;
    build_query(message, {.id = 1, .type = 2}, {});
    EXPECT_EQ(message.size(), 17U);
    EXPECT_FALSE(parse_edns(message));
    EXPECT_EQ(name_text(parse_question(message)->name), ".");
}

TEST(QueryName, RefusesMoreThan255Bytes) {
    QueryName name;
    for (int i = 0; i < 3; ++i) {
        name.add(std::string(63, 'a'));
    }
    name.add(std::string(60, 'a'));
    EXPECT_THROW(name.add("a"), std::out_of_range);
}

TEST(NameMaker, NamesLieBelowKnownDomains) {
    NameMaker maker({"com", "arpa", "xn--p1ai"});
    Random random(1);
    QueryName name;
    std::set<std::string> tops;
    for (int i = 0; i < 2000; ++i) {
        maker.make(i % 2 == 0 ? kTypeA : kTypeSrv, random, name);
        tops.insert(last_label(text_of(name)));
    }
    EXPECT_EQ(tops, (std::set<std::string>{"com.", "arpa.", "xn--p1ai."}));
}

TEST(NameMaker, TypesAskWhereTheyWould) {
    NameMaker maker({"com"});
    Random random(1);
    QueryName name;
    maker.make(kTypeDs, random, name);
    EXPECT_EQ(text_of(name), "com.");
    maker.make(kTypePtr, random, name);
    EXPECT_TRUE(text_of(name).ends_with(".in-addr.arpa."));
    std::set<std::string> names;
    for (int i = 0; i < 100; ++i) {
        maker.make(kTypeNs, random, name);
        names.insert(text_of(name));
    }
    EXPECT_EQ(names, (std::set<std::string>{".", "com."}));
}

TEST(NameMaker, JunkIsNeverDelegated) {
    NameMaker maker({"com", "home", "corp"});
    Random random(1);
    QueryName name;
    for (int i = 0; i < 5000; ++i) {
        maker.make_junk(i % 3 == 0 ? kTypePtr : kTypeA, random, name);
        const std::string top = last_label(text_of(name));
        ASSERT_NE(top, "com.");
        ASSERT_NE(top, "home.");
        ASSERT_NE(top, "corp.");
        ASSERT_GE(top.size(), 4U);
        ASSERT_LE(top.size(), 16U);
    }
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
