// What holds for all rules on messages, on many drawn ones.

#include "core/dns/message.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/testing/messages.hh"
#include "core/rules/testing/rules.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

using testing::Octets;

using KindAndValue = std::pair<std::string, std::string>;

const std::vector<KindAndValue>& idempotent() {
    static const std::vector<KindAndValue> kRules{
        {"edns", "on"},
        {"edns", "off"},
        {"edns", "size=1232"},
        {"edns", "do=on"},
        {"edns", "do=off"},
        {"edns", "nsid=on,cookie=0011223344556677"},
        {"edns", "cookie=random,ecs=192.0.2.0/24,2001:db8::/32"},
        {"edns", "padding=128,size=512"},
        {"edns", "padding=468,ecs=off"},
        {"header", "rd,-cd,ad"},
        {"header", "opcode=NOTIFY"},
        {"name", "case=lower"},
        {"name", "case=upper"},
        {"name", "fixed=example.com"},
        {"name", "zone=test,example"},
        {"type", "AAAA"},
        {"type", "A:50,AAAA:50,by=source"},
    };
    return kRules;
}

std::vector<KindAndValue> all_rules() {
    auto rules = idempotent();
    for (const char* value : {"case=0x20", "unique=q", "prefix=a-label", "suffix=lab.test.",
                              "prefix=x,share=37", "case=0x20,share=50,by=source"}) {
        rules.emplace_back("name", value);
    }
    rules.emplace_back("type", "A:50,AAAA:30,MX:20");
    return rules;
}

const std::vector<Octets>& messages() {
    static const std::vector<Octets> kMessages = testing::drawn_messages(1200);
    return kMessages;
}

TEST(MessageRules, DrawnMessagesAreWellFormed) {
    size_t compressed = 0;
    size_t with_signature = 0;
    for (const Octets& message : messages()) {
        const auto layout = parse_layout(message);
        ASSERT_TRUE(layout.whole);
        compressed += layout.compressed ? 1U : 0U;
        with_signature += layout.is_signed ? 1U : 0U;
    }
    EXPECT_GT(compressed, 80U);
    EXPECT_GT(with_signature, 80U);
}

TEST(MessageRules, WellFormedStaysWellFormed) {
    for (const auto& [kind, value] : all_rules()) {
        const auto rule = make_rule(kind, value);
        const auto out = testing::run(*rule, messages());
        ASSERT_EQ(out.size(), messages().size());
        for (size_t i = 0; i < out.size(); ++i) {
            const auto before = parse_layout(messages()[i]);
            const auto after = parse_layout(out[i]);
            ASSERT_TRUE(after.whole && parse_question(out[i])) << kind << ' ' << value << ' ' << i;
            ASSERT_EQ(before.is_signed, after.is_signed);
            ASSERT_TRUE(std::equal(out[i].begin(), out[i].begin() + 2, messages()[i].begin()));
        }
    }
}

TEST(MessageRules, CountsAddUp) {
    for (const auto& [kind, value] : all_rules()) {
        const auto rule = make_rule(kind, value);
        const auto out = testing::run(*rule, messages());
        size_t differ = 0;
        for (size_t i = 0; i < out.size(); ++i) {
            differ += out[i] != messages()[i] ? 1U : 0U;
        }
        const auto counts = rule->counts();
        EXPECT_EQ(counts.at("changed"), differ) << kind << ' ' << value;
        EXPECT_EQ(counts.at("seen"), messages().size());
        EXPECT_LE(counts.at("changed"), counts.at("matched"));
        EXPECT_FALSE(counts.contains("malformed"));
    }
}

TEST(MessageRules, Idempotent) {
    for (const auto& [kind, value] : idempotent()) {
        const auto once = testing::run(*make_rule(kind, value), messages());
        const auto rule = make_rule(kind, value);
        EXPECT_EQ(testing::run(*rule, once), once) << kind << ' ' << value;
        EXPECT_EQ(rule->counts().at("changed"), 0U);
    }
}

TEST(MessageRules, TheSameInEveryRunHoweverBatchesAreCut) {
    for (const auto& [kind, value] : all_rules()) {
        const auto whole = testing::run(*make_rule(kind, value), messages());
        for (const size_t cut : {1UL, 100UL, 4096UL}) {
            EXPECT_EQ(testing::run(*make_rule(kind, value), messages(), cut), whole)
                << kind << ' ' << value;
        }
    }
}

TEST(MessageRules, SeedsMatterWhereChanceDoes) {
    for (const auto& [kind, value] : std::vector<KindAndValue>{{"name", "case=0x20"},
                                                               {"type", "A,AAAA"},
                                                               {"type", "A,AAAA,by=source"},
                                                               {"edns", "cookie=random"},
                                                               {"name", "prefix=x,share=37"}}) {
        EXPECT_NE(testing::run(*make_rule(kind, value, 1), messages()),
                  testing::run(*make_rule(kind, value, 2), messages()));
    }
}

TEST(MessageRules, OffUndoesOn) {
    std::vector<Octets> bare;
    for (const Octets& message : messages()) {
        if (!parse_edns(message)) {
            bare.push_back(message);
        }
    }
    const auto on =
        testing::run(*make_rule("edns", "size=1400,do=on,nsid=on,cookie=random,padding=128"), bare);
    EXPECT_EQ(testing::run(*make_rule("edns", "off"), on), bare);
}

TEST(MessageRules, ClosesPassUnseen) {
    for (const auto& [kind, value] : all_rules()) {
        const auto rule = make_rule(kind, value);
        Batch batch;
        batch.queries.resize(3);
        rule->apply(batch);
        EXPECT_EQ(batch.queries.size(), 3U);
        EXPECT_EQ(rule->counts().at("seen"), 0U);
    }
}

} // namespace
} // namespace reprise::rules
