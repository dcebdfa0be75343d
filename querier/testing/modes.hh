#pragma once
// A querier process that is told what to play and how, in an own network namespace with every
// source's address routed to it.

#include "core/testing/netns.hh"
#include "core/wire/counts.hh"
#include "core/wire/query.hh"
#include "core/wire/replay.pb.h"
#include "querier/testing/messages.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/servers.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace reprise::querier::testing {

inline constexpr const char* kPeer = "127.0.0.1:5310";

/// A line of hedges-*.csv.
struct Hedge {
    unsigned long sequence = 0;
    unsigned peer = 0;
    std::array<long, 2> sent{};
    std::array<long, 2> received{};
    unsigned won = 0;
};

class ModesTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = reprise::testing::enter_network_namespace(); !why.empty()) {
            GTEST_SKIP() << why;
        }
        static const bool routed = [] {
            reprise::testing::ip("route add local 10.0.0.0/8 dev lo");
            reprise::testing::ip("-6 route add local a00::/8 dev lo");
            return true;
        }();
        ASSERT_TRUE(routed);
    }

    /// One more query; its id is its number unless given.
    Query& add(Nanoseconds offset, std::uint32_t source = 0, Transport transport = Transport::kUdp,
               std::uint8_t family = 4) {
        const auto id = static_cast<std::uint16_t>(queries_.size());
        messages_.push_back(make_message(id, "a.example."));
        queries_.push_back(
            make_query(queries_.size(), offset, messages_.back(), source, transport, family));
        return queries_.back();
    }

    /// As many queries, one a source, a gap apart.
    void add_sources(std::uint32_t count, Nanoseconds gap = 0, std::uint8_t family = 4) {
        for (std::uint32_t n = 0; n < count; ++n) {
            add(n * gap, n, Transport::kUdp, family);
        }
    }

    void begin(Parent& parent, const wire::Options& options) {
        parent.setup(options);
        parent.give(queries_);
        parent.start(300 * kMillisecond);
    }

    /// Plays everything to the end, which must be clean and account for every query and credit.
    void play(Parent& parent, const wire::Options& options) {
        begin(parent, options);
        parent.end_of_trace();
        ASSERT_EQ(parent.finish(), 0) << parent.aborted() << parent.report().because();
        ASSERT_TRUE(parent.reported());
        const Counts c = parent.final_counts();
        EXPECT_EQ(c.ended(), queries_.size());
        EXPECT_EQ(parent.credit().records, queries_.size());
        EXPECT_EQ(parent.credit(), parent.given());
        EXPECT_EQ(parent.records().records.size(), queries_.size());
    }

    static wire::Options in_mode(const std::string& mode) {
        wire::Options options = Parent::options();
        set(options, "timeout_s", "0.5");
        set(options, "source_mode", mode);
        return options;
    }

    static wire::Options hedged(const std::string& mode = "ports") {
        wire::Options options = in_mode(mode);
        set(options, "hedge_ms", "50");
        set(options, "peers", kPeer);
        return options;
    }

    static wire::Options dependent() {
        wire::Options options = in_mode("ports");
        set(options, "dependent", "true");
        return options;
    }

    [[nodiscard]] std::vector<Hedge> hedges() const {
        std::ifstream in(results_.path() + "/hedges-here-0.csv");
        std::string line;
        std::getline(in, line);
        EXPECT_TRUE(!in || line == "seq,peer,sent_ns,peer_sent_ns,received_ns,peer_received_ns,"
                                   "peer_won");
        std::vector<Hedge> rows;
        for (Hedge row; std::getline(in, line);) {
            EXPECT_EQ(std::sscanf(line.c_str(), "%lu,%u,%ld,%ld,%ld,%ld,%u", &row.sequence,
                                  &row.peer, &row.sent[0], &row.sent[1], &row.received[0],
                                  &row.received[1], &row.won),
                      7)
                << line;
            rows.push_back(row);
        }
        std::ranges::sort(rows, {}, &Hedge::sequence);
        return rows;
    }

    /// A number of the statistics behind the records.
    static long statistic(const Parent& parent, const std::string& name) {
        const std::string json = parent.records().statistics;
        const size_t at = json.find("\"" + name + "\":");
        return at == std::string::npos ? -1 : std::stol(json.substr(at + name.size() + 3));
    }

    static std::set<IpAddress> addresses(const std::vector<Seen>& seen) {
        std::set<IpAddress> all;
        for (const Seen& one : seen) {
            all.insert(one.peer.address);
        }
        return all;
    }

    static std::vector<std::uint16_t> idents(const std::vector<Seen>& seen) {
        std::vector<std::uint16_t> all;
        all.reserve(seen.size());
        for (const Seen& one : seen) {
            all.push_back(static_cast<std::uint16_t>(one.query.at(0) << 8U | one.query.at(1)));
        }
        return all;
    }

    ScratchFolder results_;
    std::deque<std::vector<std::uint8_t>> messages_;
    std::vector<Query> queries_;
};

/// In both ways to send over sockets.
class BothModesTest : public ModesTest, public ::testing::WithParamInterface<const char*> {};

} // namespace reprise::querier::testing
