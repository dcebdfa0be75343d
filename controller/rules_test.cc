// Rules in the controller, and the same rules applied to the trace before: the same is played.
#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/rules.hh"
#include "core/trace/feed.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <ios>
#include <memory>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

using Rules = std::vector<std::unique_ptr<rules::Rule>>;

void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

/// What rules from the one given on make of the batch, encoded.
void encode(const Rules& rules, size_t first, Batch& batch, trace::QueryEncoder& encoder,
            std::string& out) {
    if (first == rules.size()) {
        for (const Query& query : batch.queries) {
            encoder.encode(query, out);
        }
        return;
    }
    rules::Rule& rule = *rules[first];
    rule.apply(batch);
    encode(rules, first + 1, batch, encoder, out);
    while (rule.has_more()) {
        Batch more;
        rule.apply(more);
        encode(rules, first + 1, more, encoder, out);
    }
}

class RulesTest : public testing::TinyTrace {
protected:
    RulesTest() {
        options_.trace = folder_ + "/trace.rps";
        std::string out;
        const auto encoder = trace::make_encoder(trace::OutputForm::kStream);
        encoder->begin(out);
        for (size_t i = 0; i < 300; ++i) {
            const auto time = static_cast<Nanoseconds>(1'000'000'000 * kSecond + i * 25'654'321);
            const std::string source = i % 7 == 0 ? fmt::format("2001:db8::{}", i % 41)
                                                  : fmt::format("192.0.2.{}", i / 8 % 41);
            const std::string name =
                fmt::format("{}.n{}.example", i % 3 == 0 ? "www" : "a", i % 20);
            add(rules::query_at(time, source, static_cast<std::uint16_t>(i), name), *encoder, out);
            if (i % 4 == 0) { // connections of two queries, some of which the client closes
                add(rules::tcp_at(time, i / 8 + 1, source), *encoder, out);
            }
            if (i % 24 == 4) {
                add(rules::close_at(time + 1000, i / 8 + 1, source), *encoder, out);
            }
        }
        encoder->finish(out);
        write_file(options_.trace, out);
    }

    static void add(const rules::Owned& owned, trace::QueryEncoder& encoder, std::string& out) {
        Query query;
        query.time = owned.time;
        query.source = owned.source;
        query.destination = owned.destination;
        query.connection = owned.connection;
        query.transport = owned.transport;
        query.message = owned.message;
        encoder.encode(query, out);
    }

    /// The trace with the options' rules applied, as a file.
    [[nodiscard]] std::string changed() const {
        const Rules rules = rules::make_rules(options_.rules);
        trace::Feed feed({.paths = {options_.trace}, .reader = {.closes = true}, .batch = 4096});
        std::string out;
        const auto encoder = trace::make_encoder(trace::OutputForm::kStream);
        encoder->begin(out);
        for (Batch batch; feed.read(batch);) {
            encode(rules, 0, batch, *encoder, out);
        }
        encoder->finish(out);
        write_file(folder_ + "/changed.rps", out);
        return folder_ + "/changed.rps";
    }

    [[nodiscard]] static std::vector<std::string> played(const Options& options) {
        TraceFeed feed(options, parse_servers({"198.18.0.53", "fd00::53"}, 53));
        std::vector<std::string> lines;
        for (Query query; lines.size() < 1'500 && feed.next(query);) {
            lines.push_back(fmt::format(
                "{} {} {} {} {} {} {} {} {} {} ", query.sequence, query.time, query.due,
                query.source.text(), query.destination.text(), query.source_id, query.connection,
                transport_name(query.transport), query.rtt_class, query.idle_class));
            lines.back().append(query.message.begin(), query.message.end());
        }
        const FeedState state = feed.state();
        lines.push_back(fmt::format("{} {} {} {} {}", state.read, state.sources, state.laps,
                                    state.clock_steps, state.without_rd));
        for (const auto& [reason, count] : state.skipped.named()) {
            lines.push_back(fmt::format("{} {}", reason, count));
        }
        return lines;
    }
};

TEST_F(RulesTest, WhatIsPlayedIsThatOfATraceChangedBefore) {
    const std::vector<std::string> sets{
        "kind='transport'\nto={udp=3,tcp=4,tls=3}\n[[rule]]\nkind='edns'\ndo=true\ncookie='random'",
        "kind='transport'\nto='tcp'\nshare=30\nby='query'\n[[rule]]\nkind='name'\nunique='q'",
        "kind='speed'\nfactor=3\nshare=40\n[[rule]]\nkind='header'\nset=['-rd']\nshare=33",
        "kind='duplicate'\ncopies=4\n[[rule]]\nkind='keep'\nshare=30\n[[rule]]\nkind='shift'\n"
        "seconds=-5",
        "kind='duplicate'\ncopies=1500\nwhere.source='192.0.2.1'\n[[rule]]\nkind='duplicate'\n"
        "copies=2",
        "kind='attack'\nrate=700\nat=1\nfor=3\nname='x.example'\n[[rule]]\nkind='class'\nidle=20\n"
        "rtt={20=1,90=1}",
        "kind='poisson'\nrate=150\n[[rule]]\nkind='type'\nto={A=1,AAAA=1}",
        "kind='drop'\nwhere={transport='tcp'}\nshare=50\n[[rule]]\nkind='gap'\nms=10",
        "kind='profile'\npoints=[[0,30],[3,300]]\n[[rule]]\nkind='collapse'\ntimeout=2",
        "kind='remap'\nto='198.18.0.0/28'\nwhere.from=2\n[[rule]]\nkind='anonymize'\nkey='" +
            std::string(64, 'a') + "'",
    };
    const std::vector<std::function<void(Settings&)>> ways{
        [](Settings&) {},
        [](Settings& replay) { replay.loop = 3; },
        [](Settings& replay) { replay.from = "1.5", replay.until = "4.25", replay.loop = 2; },
        [](Settings& replay) { replay.sample_sources = "50%"; },
        [](Settings& replay) { replay.transport = "tcp", replay.speed = 7; },
        [](Settings& replay) { replay.transport = "udp", replay.rate = 1000, replay.limit = 210; },
        [](Settings& replay) { replay.closer = "server", replay.collapse_retransmits = true; },
        [](Settings& replay) { replay.duration_s = 3.5, replay.loop = 0; },
    };
    for (const std::string& text : sets) {
        options_.rules = {};
        rules::parse_rule_file("[[rule]]\n" + text, "rules.toml", options_.rules);
        const std::string changed_before = changed();
        for (size_t way = 0; way < ways.size(); ++way) {
            Options inline_options = options_;
            ways[way](inline_options.replay);
            Options before = inline_options;
            before.trace = changed_before;
            before.rules = {};
            const auto got = played(inline_options);
            ASSERT_EQ(got, played(before)) << text << "\nway " << way;
            EXPECT_GT(got.size(), 20U) << text << "\nway " << way;
        }
    }
}

TEST_F(RulesTest, CountsAreThoseOfWhatWasRead) {
    rules::parse_rule_file("[[rule]]\nkind='drop'\nshare=25", "rules.toml", options_.rules);
    options_.replay.loop = 2;
    TraceFeed feed(options_, parse_servers({"198.18.0.53", "fd00::53"}, 53));
    for (Query query; feed.next(query);) {
    }
    const FeedState state = feed.state();
    ASSERT_EQ(state.rules.size(), 1U);
    EXPECT_EQ(state.rules[0].at("seen"), 750U);
    EXPECT_EQ(state.rules[0].at("dropped"), 750U - state.read);
}

} // namespace
} // namespace reprise::controller
