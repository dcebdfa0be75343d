#include "controller/trace_feed.hh"
#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <string>

namespace reprise::controller {
namespace {

Question question(const char* text) { return Question::parse(text).value_or(Question{}); }

Endpoint server(const char* text) { return Endpoint::parse(text).value_or(Endpoint{}); }

TEST(Generator, AsksOneQuestionFromSourcesInTurn) {
    Generator generator(question("www.example.com/AAAA"), 3, server("198.18.0.53:53"), 1000);
    Query query;
    for (unsigned i = 0; i < 7; ++i) {
        generator.next(query);
        EXPECT_EQ(query.source.address.text(), "10.0.0." + std::to_string(1 + i % 3));
        EXPECT_EQ(query.time, i * kMillisecond);
        EXPECT_FALSE(query.is_response());
        const auto header = parse_header(query.message).value_or(DnsHeader{});
        EXPECT_EQ(header.id, i / 3);
        EXPECT_EQ(header.flags, 0);
        const auto asked = parse_question(query.message).value_or(DnsQuestion{});
        EXPECT_EQ(name_text(asked.name), "www.example.com.");
        EXPECT_EQ(asked.type, 28);
        EXPECT_EQ(asked.dns_class, 1);
    }
}

TEST(Generator, AsksForRecursionWhereTold) {
    Generator generator(question("."), 1, server("198.18.0.53:53"), 0, true);
    Query query;
    generator.next(query);
    EXPECT_EQ(parse_header(query.message).value_or(DnsHeader{}).flags, 0x0100);
}

TEST(Generator, PortFollowsWhenTheIdsAreThrough) {
    Generator generator(question("."), 1, server("198.18.0.53:53"), 0);
    Query query;
    for (unsigned i = 0; i <= 65'536; ++i) {
        generator.next(query);
        ASSERT_EQ(query.source.port, i < 65'536 ? 1024 : 1025);
    }
    EXPECT_EQ(parse_header(query.message).value_or(DnsHeader{}).id, 0);
}

TEST(Generator, SourcesSpreadOverThePrefix) {
    Generator generator(question("."), 70'000, server("[fd00::53]:53"), 0);
    Query query;
    for (unsigned i = 0; i < 66'000; ++i) {
        generator.next(query);
    }
    EXPECT_EQ(query.source.address.text(), "2001:db8::1:1d0");
}

TEST(Question, TypesByNameAndNumber) {
    const auto type = [](const char* text) {
        const auto one = Question::parse(text);
        return one ? one->type : -1;
    };
    EXPECT_EQ(type("example.com"), 1);
    EXPECT_EQ(type("example.com./soa"), 6);
    EXPECT_EQ(type("./NS"), 2);
    EXPECT_EQ(type("example.com/TYPE65280"), 65'280);
    EXPECT_EQ(type("example.com/257"), 257);
    for (const char* bad : {"", "/A", "example.com/", "example.com/NOPE", "a..b/A", ".a",
                            "example.com/TYPE", "example.com/65536"}) {
        EXPECT_EQ(type(bad), -1) << bad;
    }
    EXPECT_EQ(type((std::string(64, 'a') + ".com").c_str()), -1);
    std::string longest;
    for (int i = 0; i < 128; ++i) {
        longest += "a.";
    }
    EXPECT_EQ(type(longest.c_str()), -1);
}

} // namespace
} // namespace reprise::controller
