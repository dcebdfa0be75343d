#include "core/dns/message.hh"
#include "core/dns/name.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise {
namespace {

using Message = std::vector<std::uint8_t>;

void append(Message& out, std::string_view text) {
    out.insert(out.end(), text.begin(), text.end());
}

Message header(unsigned flags, unsigned questions, unsigned answers, unsigned additionals) {
    Message out;
    for (const unsigned field : {0x1234U, flags, questions, answers, 0U, additionals}) {
        append16(out, field);
    }
    return out;
}

void append_question(Message& out, std::string_view name, unsigned type = 1) {
    append(out, name);
    append16(out, type);
    append16(out, 1);
}

/// OPT with udp size 1232, DO, extended rcode 1 and an empty NSID option.
void append_opt(Message& out) {
    append(out, std::string_view("\0\0\x29\x04\xd0\x01\0\x80\0\0\x04\0\x03\0\0", 15));
}

constexpr std::string_view kExample("\7example\3com\0", 13);
constexpr std::string_view kExampleUpper("\7EXAMPLE\3Com\0", 13);

TEST(DnsHeader, ReadsFields) {
    const auto parsed = parse_header(header(0x8183, 1, 2, 3));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->id, 0x1234);
    EXPECT_TRUE(parsed->is_response());
    EXPECT_FALSE(parsed->truncated());
    EXPECT_EQ(parsed->rcode(), 3);
    EXPECT_EQ(parsed->opcode(), 0);
    EXPECT_EQ(parsed->questions, 1);
    EXPECT_EQ(parsed->answers, 2);
    EXPECT_EQ(parsed->additionals, 3);
}

TEST(DnsHeader, OpcodeAndTruncation) {
    EXPECT_EQ(parse_header(header(0x2a00, 0, 0, 0))->opcode(), 5);
    EXPECT_TRUE(parse_header(header(0x2a00, 0, 0, 0))->truncated());
}

TEST(DnsHeader, NeedsTwelveBytes) {
    const Message whole = header(0, 0, 0, 0);
    EXPECT_TRUE(parse_header(whole));
    EXPECT_FALSE(parse_header(Bytes(whole).first(11)));
    EXPECT_FALSE(parse_header({}));
}

TEST(DnsQuestion, ReadsTheFirst) {
    Message message = header(0, 1, 0, 0);
    append_question(message, kExample, 28);
    const auto question = parse_question(message);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->type, 28);
    EXPECT_EQ(question->dns_class, 1);
    EXPECT_EQ(question->raw.size(), kExample.size() + 4);
    EXPECT_EQ(name_text(question->name), "example.com.");
}

TEST(DnsQuestion, EveryCutIsRefused) {
    Message message = header(0, 1, 0, 0);
    append_question(message, kExample);
    for (size_t size = 0; size < message.size(); ++size) {
        EXPECT_FALSE(parse_question(Bytes(message).first(size))) << size;
    }
}

TEST(DnsQuestion, CompressedAndOverlongNamesAreMalformed) {
    Message compressed = header(0, 1, 0, 0);
    append_question(compressed, std::string_view("\xc0\x0c", 2));
    EXPECT_FALSE(parse_question(compressed));
    Message overlong = header(0, 1, 0, 0);
    std::string name;
    for (int i = 0; i < 5; ++i) {
        name += '\x3f' + std::string(63, 'a');
    }
    append_question(overlong, name + '\0');
    EXPECT_FALSE(parse_question(overlong));
}

TEST(DnsQuestion, NoneAskedMeansNone) { EXPECT_FALSE(parse_question(header(0, 0, 0, 0))); }

TEST(DnsQuestion, ComparesWithoutCase) {
    Message a = header(0, 1, 0, 0);
    Message b = header(0, 1, 0, 0);
    Message c = header(0, 1, 0, 0);
    append_question(a, kExample);
    append_question(b, kExampleUpper);
    append_question(c, kExample, 2);
    EXPECT_TRUE(same_question(*parse_question(a), *parse_question(b)));
    EXPECT_FALSE(same_question(*parse_question(a), *parse_question(c)));
}

TEST(DnsEdns, FoundBehindQuestionAndAnswer) {
    Message message = header(0x8180, 1, 1, 1);
    append_question(message, kExample);
    append(message, std::string_view("\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16));
    append_opt(message);
    const auto edns = parse_edns(message);
    ASSERT_TRUE(edns);
    EXPECT_EQ(edns->udp_size, 1232);
    EXPECT_TRUE(edns->dnssec_ok);
    EXPECT_EQ(edns->version, 0);
    EXPECT_EQ(edns->options.size(), 4U);
    EXPECT_EQ(full_rcode(message), 16);
}

TEST(DnsEdns, AbsentOrCutIsNone) {
    Message message = header(0, 1, 0, 1);
    append_question(message, kExample);
    EXPECT_FALSE(parse_edns(message)) << "announced but not there";
    append_opt(message);
    EXPECT_TRUE(parse_edns(message));
    EXPECT_FALSE(parse_edns(Bytes(message).first(message.size() - 1)));
    EXPECT_FALSE(parse_edns(header(0, 0, 0, 0)));
}

TEST(DnsEdns, RcodeWithoutEdnsIsTheHeaders) {
    EXPECT_EQ(full_rcode(header(0x8185, 0, 0, 0)), 5);
    EXPECT_EQ(full_rcode({}), 0xffff);
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
                parse_name("www.example")->bytes());
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
    build_query(message, {.id = 1, .type = 2}, parse_name(".")->bytes());
    EXPECT_EQ(message.size(), 17U);
    EXPECT_FALSE(parse_edns(message));
    EXPECT_EQ(name_text(parse_question(message)->name), ".");
}

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
