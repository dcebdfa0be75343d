// A parent with real links over socket pairs; the children are played by the
// test in the same loop. What whole trees do is in tests/scenario/tree.
#include "core/base/fd.hh"
#include "core/tree/fanout.hh"
#include "core/tree/host.hh"
#include "core/tree/kernel_host.hh"
#include "core/wire/frame.hh"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

IpAddress client(std::uint8_t number) {
    const std::array<std::uint8_t, 4> raw{10, 0, 0, number};
    return IpAddress::v4(raw.data());
}

/// A child that says Hello, answers probes and keeps what it gets.
struct FakeChild {
    std::unique_ptr<Link> link;
    std::uint64_t received = 0;
    std::uint64_t closes = 0;
    std::uint64_t announced = 0; ///< queries, in EndOfTrace
    Credit taken;                ///< and not returned
    std::vector<std::uint64_t> sequences;
    wire::Start start;
    bool ended = false;

    void on_frame(wire::Frame& frame) {
        if (frame.has_probe()) {
            wire::Frame reply;
            reply.mutable_reply()->set_sent_mono_ns(frame.probe().sent_mono_ns());
            reply.mutable_reply()->set_child_mono_ns(SteadyClock::now());
            link->send(reply);
        } else if (frame.has_block()) {
            RecordReader records(bytes_of(frame.block().records()));
            taken += {.records = frame.block().count(), .bytes = frame.block().records().size()};
            Query query;
            while (records.next(query)) {
                closes += query.is_close() ? 1U : 0U;
                received += query.is_close() ? 0U : 1U;
                sequences.push_back(query.sequence);
            }
        } else if (frame.has_start()) {
            start = frame.start();
        } else if (frame.has_end()) {
            ended = true;
            announced = frame.end().queries();
        }
    }

    void hello(std::uint64_t credit, std::uint64_t bytes = kHostBytes) {
        wire::Frame frame;
        *frame.mutable_hello() = KernelHost().facts();
        frame.mutable_hello()->set_protocol(kProtocolVersion);
        frame.mutable_hello()->set_run("run1");
        frame.mutable_hello()->set_queriers(1);
        frame.mutable_hello()->set_credit(credit);
        frame.mutable_hello()->set_credit_bytes(bytes);
        link->send(frame);
    }

    /// Returns what it took since the last time.
    void credit() { link->send(frame_of(std::exchange(taken, {}))); }
};

class FanoutTest : public testing::Test {
protected:
    FakeChild& add_child(const std::string& name) {
        std::array<int, 2> pair{};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
        fanout_.add(name, "test", host_.local(FileDescriptor(pair[0])));
        FakeChild& child = *children_.emplace_back(std::make_unique<FakeChild>());
        child.link = host_.local(FileDescriptor(pair[1]));
        child.link->set_handler({.frame = [&child](wire::Frame& f) { child.on_frame(f); },
                                 .down = [](const std::string&) {}});
        return child;
    }

    /// Runs the loop until `done` holds, at most five seconds.
    bool run_until(const std::function<bool()>& done) {
        const Nanoseconds limit = SteadyClock::now() + 5 * kSecond;
        const auto check = host_.timer(kMillisecond, [&] {
            if (done() || SteadyClock::now() > limit) {
                host_.stop();
            }
        });
        if (!done()) {
            host_.run();
        }
        return done();
    }

    void give(std::uint64_t sequence, std::uint8_t from) {
        fanout_.give(query(sequence, from).bytes());
    }

    /// Good until the next call.
    RecordView query(std::uint64_t sequence, std::uint8_t from) {
        static const std::array<std::uint8_t, 12> kMessage{};
        return record(sequence, from, kMessage);
    }

    RecordView close(std::uint8_t from) { return record(0, from, {}); }

    RecordView record(std::uint64_t sequence, std::uint8_t from, Bytes message) {
        record_.clear();
        append_record(record_, {.sequence = sequence,
                                .source = {.address = client(from), .port = 1},
                                .destination = {.address = client(250), .port = 53},
                                .source_id = from,
                                .message = message});
        RecordReader records(bytes_of(record_));
        RecordView view;
        records.next(view);
        return view;
    }

    std::string record_;

    KernelHost host_;
    bool ready_ = false;
    Credit returned_;
    std::string lost_;
    Fanout fanout_{host_,
                   "run1",
                   {.ready = [this] { ready_ = true; },
                    .credit = [this](const Credit& credit) { returned_ += credit; },
                    .abort = [](const std::string&) {},
                    .lost = [this](const Child& child) { lost_ = child.lost_because; },
                    .over = [] {}}};
    FirstWindow staged_;
    std::vector<std::unique_ptr<FakeChild>> children_;
};

TEST_F(FanoutTest, ChildrenOfOneHostShareItsClock) {
    add_child("a").hello(10);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    EXPECT_TRUE(fanout_.children()[0]->same_clock);
    EXPECT_EQ(fanout_.children()[0]->clock.count(), kProbes);
    fanout_.start(123'456, 9, 8);
    ASSERT_TRUE(run_until([&] { return children_[0]->start.start_mono_ns() != 0; }));
    EXPECT_EQ(children_[0]->start.start_mono_ns(), 123'456);
    EXPECT_EQ(children_[0]->start.trace_first_ns(), 8);
}

TEST_F(FanoutTest, NothingGoesBeyondTheCredit) {
    add_child("a").hello(10);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    for (std::uint64_t i = 0; i < 10; ++i) {
        ASSERT_TRUE(fanout_.offer(query(i, 1)));
    }
    EXPECT_FALSE(fanout_.offer(query(10, 1)));
    fanout_.flush();
    for (std::uint64_t i = 10; i < 15; ++i) {
        give(i, 1);
    }
    fanout_.end();
    ASSERT_TRUE(run_until([&] { return children_[0]->received == 10; }));
    EXPECT_FALSE(children_[0]->ended);
    children_[0]->credit();
    ASSERT_TRUE(run_until([&] { return children_[0]->ended; }));
    EXPECT_EQ(children_[0]->received, 15U);
    EXPECT_EQ(returned_.records, 10U);
    EXPECT_TRUE(std::ranges::is_sorted(children_[0]->sequences));
}

TEST_F(FanoutTest, AClosingTakesCreditButIsNoQuery) {
    add_child("a").hello(3);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    EXPECT_TRUE(fanout_.offer(query(0, 1)));
    EXPECT_TRUE(fanout_.offer(close(1)));
    EXPECT_TRUE(fanout_.offer(query(1, 1)));
    EXPECT_FALSE(fanout_.offer(close(1))) << "the credit is used up";
    fanout_.end();
    ASSERT_TRUE(run_until([&] { return children_[0]->ended; }));
    EXPECT_EQ(children_[0]->received, 2U);
    EXPECT_EQ(children_[0]->closes, 1U);
    EXPECT_EQ(children_[0]->announced, 2U);
    EXPECT_EQ(fanout_.children()[0]->assigned, 2U);
    children_[0]->credit();
    EXPECT_TRUE(run_until([&] { return returned_.records == 3; }));
    EXPECT_EQ(fanout_.children()[0]->uncredited, Credit{});
}

TEST_F(FanoutTest, AClosingGoesToTheChildOfItsSource) {
    add_child("a").hello(1000);
    add_child("b").hello(1000);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    for (std::uint8_t i = 0; i < 100; ++i) {
        give(i, i);
        fanout_.give(close(i).bytes());
    }
    fanout_.end();
    ASSERT_TRUE(run_until([&] { return children_[0]->ended && children_[1]->ended; }));
    EXPECT_GT(children_[0]->received, 0U);
    EXPECT_EQ(children_[0]->closes, children_[0]->received);
    EXPECT_EQ(children_[1]->closes, children_[1]->received);
    EXPECT_EQ(children_[0]->closes + children_[1]->closes, 100U);
}

TEST_F(FanoutTest, ClosingsForALostChildAreNotLostQueries) {
    add_child("a").hello(1000);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    give(0, 1);
    fanout_.give(close(1).bytes()); // both are in the block that is never sent
    children_[0]->link->close();
    ASSERT_TRUE(run_until([&] { return !lost_.empty(); }));
    EXPECT_EQ(returned_.records, 2U);
    EXPECT_TRUE(fanout_.offer(query(1, 1)));
    EXPECT_TRUE(fanout_.offer(close(1)));
    fanout_.flush();
    EXPECT_EQ(returned_.records, 4U) << "whoever gave them has the credit back";
    EXPECT_EQ(returned_.bytes, 2 * (query(1, 1).bytes().size() + close(1).bytes().size()));
    EXPECT_EQ(fanout_.children()[0]->assigned, 2U);
}

/// Of 64 KiB: few fill the bytes, long before the records are used up.
TEST_F(FanoutTest, LargeMessagesTakeTheirBytes) {
    const std::vector<std::uint8_t> message(65'535, 1);
    add_child("a").hello(1000, kLeastBytes);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    FakeChild& child = *children_[0];
    Credit given;
    for (int turn = 0; turn < 3; ++turn) {
        std::uint64_t sequence = 0;
        for (; fanout_.offer(record(sequence, 1, message)); ++sequence) {
            given += cost_of(record_.size());
        }
        EXPECT_EQ(sequence, kLeastBytes / record_.size());
        EXPECT_TRUE(fanout_.offer(close(1))) << "a small one still fits";
        given += cost_of(record_.size());
        fanout_.flush();
        ASSERT_TRUE(run_until([&] { return child.taken.records == sequence + 1; }));
        child.credit();
        ASSERT_TRUE(run_until([&] { return returned_ == given; }));
        EXPECT_EQ(fanout_.children()[0]->uncredited, Credit{});
        EXPECT_EQ(fanout_.children()[0]->credit, (Credit{.records = 1000, .bytes = kLeastBytes}));
    }
}

/// A distributor gives what it gets: beyond the child's credit it waits, in
/// blocks, each of which fits into the least window.
TEST_F(FanoutTest, LargeMessagesBeyondTheCreditWait) {
    const std::vector<std::uint8_t> message(65'535, 1);
    add_child("a").hello(1000, kLeastBytes);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    FakeChild& child = *children_[0];
    for (std::uint64_t n = 0; n < 100; ++n) {
        fanout_.give(record(n, 1, message).bytes());
    }
    fanout_.end();
    ASSERT_TRUE(run_until([&] {
        EXPECT_LE(child.taken.bytes, kLeastBytes);
        if (fanout_.children()[0]->credit.bytes < kLeastBytes / 2 && child.received % 4 == 0) {
            child.credit();
        }
        return child.ended;
    }));
    child.credit();
    ASSERT_TRUE(run_until([&] { return returned_.records == 100; }));
    EXPECT_EQ(returned_.bytes, 100 * record_.size());
    EXPECT_EQ(child.received, 100U);
}

TEST_F(FanoutTest, WhatIsStagedGoesInOrderWithItsHeavySourcesSpread) {
    constexpr std::uint64_t kMany = 8000; // also longer than a piece
    add_child("a").hello(kMany);
    add_child("b").hello(kMany);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    for (std::uint64_t n = 0; n < kMany; ++n) {
        staged_.add(query(n, static_cast<std::uint8_t>(1 + n % 4)).bytes(), fanout_.children());
    }
    EXPECT_EQ(staged_.bytes, kMany * record_.size());
    EXPECT_EQ(fanout_.give_first(staged_), "");
    EXPECT_EQ(staged_.bytes, 0U);
    fanout_.end();
    ASSERT_TRUE(run_until([&] { return children_[0]->ended && children_[1]->ended; }));
    for (const auto& child : children_) {
        EXPECT_EQ(child->received, kMany / 2);
        EXPECT_TRUE(std::ranges::is_sorted(child->sequences));
    }
    EXPECT_EQ(imbalance_of(fanout_.children()), 1);
}

TEST_F(FanoutTest, ABrokenRecordIsToldWithItsPlace) {
    add_child("a").hello(10);
    ASSERT_TRUE(run_until([&] { return ready_; }));
    EXPECT_EQ(imbalance_of(fanout_.children()), 0);
    const size_t whole = query(1, 1).bytes().size();
    const std::string block = record_ + "odd";
    const std::string trouble = fmt::format("corrupt record at byte {} of a block", whole);
    EXPECT_EQ(fanout_.give(bytes_of(block)), trouble);
    staged_.add(bytes_of(block), fanout_.children());
    EXPECT_EQ(fanout_.give_first(staged_), trouble);
    EXPECT_EQ(assigned_of(fanout_.children()), 2U);
}

} // namespace
} // namespace reprise::tree
