#include "controller/input.hh"
#include "controller/lookahead.hh"
#include "controller/source_table.hh"
#include "controller/testing/tiny_trace.hh"
#include "core/base/bytes.hh"
#include "core/trace/reader.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

/// Messages with their number as bytes, in one buffer that each call writes over.
class Numbers : public Input {
public:
    explicit Numbers(std::uint8_t count) : count_(count) {}

    bool next(trace::Message& message) override {
        if (next_ == count_) {
            return false;
        }
        buffer_.assign(next_ + 12UL, next_);
        message = {};
        message.time = next_;
        message.bytes = buffer_;
        ++next_;
        return true;
    }

    void restart() override { next_ = 0; }

    [[nodiscard]] std::string description() const override { return "numbers"; }

    [[nodiscard]] trace::Counters counters() const override { return {{"numbers", next_}}; }

    [[nodiscard]] std::uint64_t packets() const override { return next_; }

    [[nodiscard]] std::string trouble() const override { return next_ == 0 ? "none yet" : ""; }

    [[nodiscard]] double share_read() const override { return 0.5; }

private:
    std::uint8_t count_;
    std::uint8_t next_ = 0;
    std::vector<std::uint8_t> buffer_;
};

class LookaheadTest : public testing::TinyTrace {
protected:
    void expect_all(std::uint8_t count) {
        trace::Message message;
        for (std::uint8_t i = 0; i < count; ++i) {
            ASSERT_TRUE(ahead_->next(message));
            EXPECT_EQ(message.time, i);
            const std::vector<std::uint8_t> expected(i + 12UL, i);
            EXPECT_EQ(std::vector<std::uint8_t>(message.bytes.begin(), message.bytes.end()),
                      expected);
        }
        EXPECT_FALSE(ahead_->next(message));
        EXPECT_FALSE(ahead_->next(message));
    }

    void read(std::uint8_t count) {
        ahead_ = std::make_unique<Lookahead>(std::make_unique<Numbers>(count), sources_);
    }

    SourceTable sources_{folder_ + "/sources.csv"};
    std::unique_ptr<Lookahead> ahead_;
};

TEST_F(LookaheadTest, YieldsEveryMessageInOrder) {
    for (const int count : {0, 1, 7, 8, 9, 100}) {
        read(static_cast<std::uint8_t>(count));
        expect_all(static_cast<std::uint8_t>(count));
    }
}

TEST_F(LookaheadTest, BeginsAgain) {
    read(20);
    trace::Message message;
    ASSERT_TRUE(ahead_->next(message)); // others were read ahead
    ahead_->restart();
    expect_all(20);
    ahead_->restart();
    expect_all(20);
}

TEST_F(LookaheadTest, SaysWhatItsInputSays) {
    read(20);
    EXPECT_EQ(ahead_->trouble(), "none yet");
    trace::Message message;
    ASSERT_TRUE(ahead_->next(message));
    EXPECT_EQ(ahead_->description(), "numbers");
    EXPECT_EQ(ahead_->trouble(), "");
    EXPECT_GE(ahead_->packets(), 1U);
    EXPECT_EQ(ahead_->counters().at("numbers"), ahead_->packets());
    EXPECT_EQ(ahead_->share_read(), 0.5);
}

TEST_F(LookaheadTest, NumbersNoSource) {
    read(20);
    expect_all(20);
    EXPECT_EQ(sources_.size(), 0U) << "who is left out later has no number";
}

} // namespace
} // namespace reprise::controller
