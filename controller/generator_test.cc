#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace reprise::controller {
namespace {

Generator generator_of(const std::string& question, std::uint32_t sources, double rate = 0,
                       const std::string& server = "198.18.0.53") {
    Options options;
    options.generate = question;
    options.generate_sources = sources;
    options.replay.rate = rate;
    return {options, parse_servers({server}, 53)};
}

TEST(Generator, AsksOneQuestionFromSourcesInTurn) {
    Generator generator = generator_of("www.example.com/AAAA", 3, 1000);
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
    Options options;
    options.generate = ".";
    options.generate_rd = true;
    Generator generator(options, parse_servers({"198.18.0.53"}, 53));
    Query query;
    generator.next(query);
    EXPECT_EQ(parse_header(query.message).value_or(DnsHeader{}).flags, 0x0100);
}

TEST(Generator, PortFollowsWhenTheIdsAreThrough) {
    Generator generator = generator_of(".", 1);
    Query query;
    for (unsigned i = 0; i <= 65'536; ++i) {
        generator.next(query);
        ASSERT_EQ(query.source.port, i < 65'536 ? 1024 : 1025);
    }
    EXPECT_EQ(parse_header(query.message).value_or(DnsHeader{}).id, 0);
}

TEST(Generator, SourcesSpreadOverThePrefix) {
    Generator generator = generator_of(".", 70'000, 0, "fd00::53");
    Query query;
    for (unsigned i = 0; i < 66'000; ++i) {
        generator.next(query);
    }
    EXPECT_EQ(query.source.address.text(), "2001:db8::1:1d0");
}

TEST(Generator, TypesByNameAndNumber) {
    const auto type = [](const std::string& text) {
        Query query;
        Generator generator = generator_of(text, 1);
        generator.next(query);
        return parse_question(query.message).value_or(DnsQuestion{}).type;
    };
    EXPECT_EQ(type("example.com"), 1);
    EXPECT_EQ(type("example.com./soa"), 6);
    EXPECT_EQ(type("./NS"), 2);
    EXPECT_EQ(type("example.com/TYPE65280"), 65'280);
    EXPECT_EQ(type("example.com/257"), 257);
    for (const char* bad : {"", "/A", "example.com/", "example.com/NOPE", "a..b/A", ".a",
                            "example.com/TYPE", "example.com/65536"}) {
        EXPECT_THROW(type(bad), UsageError) << bad;
    }
    EXPECT_THROW(type(std::string(64, 'a') + ".com"), UsageError);
    std::string longest;
    for (int i = 0; i < 128; ++i) {
        longest += "a.";
    }
    EXPECT_THROW(type(longest), UsageError);
}

} // namespace
} // namespace reprise::controller
