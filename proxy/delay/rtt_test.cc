#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/testing/packets.hh"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdlib.h> // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <string>
#include <unistd.h>
#include <vector>

namespace reprise::proxy {
namespace {

using testing::address;
using ::testing::HasSubstr;
using testing::numbered;

constexpr Nanoseconds kMs = kMillisecond;

RttTable table(const std::string& text, const Path& missing = {}) {
    std::istringstream file(text);
    return {file, "paths", missing};
}

/// The one line that a usage error says; empty where there was none.
template <typename Call> std::string complaint(Call call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

/// A file that goes when the test ends.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& text) {
        ::close(::mkstemp(path_.data()));
        std::ofstream(path_) << text;
    }

    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    ~TemporaryFile() { ::unlink(path_.c_str()); }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_ = ::testing::TempDir() + "rtt-XXXXXX";
};

// --- tables
// ----------------------------------------------------------------------------------------

TEST(RttTable, TheLongestPrefixCounts) {
    const RttTable paths = table("# prefix\trtt\n"
                                 "10.0.0.0/8 80 # the rest\n"
                                 "\n"
                                 "10.1.0.0/16\t40\t2.5\t0.5\r\n"
                                 "10.1.2.3 1\n"
                                 "2001:db8::/32 20\n"
                                 "2001:db8::53/128 0.25\n"
                                 "default 100 3\n");
    EXPECT_EQ(*paths.find(address("10.9.9.9")), (Path{.rtt = 80 * kMs}));
    EXPECT_EQ(*paths.find(address("10.1.9.9")),
              (Path{.rtt = 40 * kMs, .jitter = 2'500'000, .loss = 0.005}));
    EXPECT_EQ(paths.find(address("10.1.2.3"))->rtt, kMs);
    EXPECT_EQ(paths.find(address("2001:db8:1::1"))->rtt, 20 * kMs);
    EXPECT_EQ(paths.find(address("2001:db8::53"))->rtt, 250'000);
    EXPECT_EQ(*paths.find(address("192.0.2.1")), (Path{.rtt = 100 * kMs, .jitter = 3 * kMs}));
    EXPECT_EQ(paths.size(), 5U);
}

TEST(RttTable, FamiliesAreApartAndZeroLengthHoldsForOne) {
    const RttTable paths = table("0.0.0.0/0 5\n::/1 6\n");
    EXPECT_EQ(paths.find(address("0.0.0.0"))->rtt, 5 * kMs);
    EXPECT_EQ(paths.find(address("255.0.0.1"))->rtt, 5 * kMs);
    EXPECT_EQ(paths.find(address("::"))->rtt, 6 * kMs);
    EXPECT_EQ(paths.find(address("8000::")), nullptr);
}

TEST(RttTable, CellsLeftOutAreThoseOfTheOptions) {
    const RttTable paths = table("192.0.2.0/24 5\n", {.rtt = 9, .jitter = 7, .loss = 0.25});
    EXPECT_EQ(*paths.find(address("192.0.2.9")), (Path{.rtt = 5 * kMs, .jitter = 7, .loss = 0.25}));
}

TEST(RttTable, NamesTheBadLine) {
    const auto bad = [](const std::string& line) {
        return complaint([&] { table("10.0.0.0/8 1\n" + line + "\n"); });
    };
    EXPECT_THAT(bad("10.1.0.0/16"), HasSubstr("paths:2: the line has 1 cells; write PREFIX"));
    EXPECT_THAT(bad("10.1.0.0/16 1 2 3 4 5 6"), HasSubstr("more than 4 cells"));
    EXPECT_THAT(bad("10.1.0.0/16 fast"),
                HasSubstr("paths:2: 'fast' is not a time; give 0 to 100000"));
    EXPECT_THAT(bad("10.1.0.0/16 -1"), HasSubstr("'-1' is not a time"));
    EXPECT_THAT(bad("10.1.0.0/16 nan"), HasSubstr("'nan' is not a time"));
    EXPECT_THAT(bad("10.1.0.0/16 100001"), HasSubstr("'100001' is not a time"));
    EXPECT_THAT(bad("10.1.0.0/16 1 x"), HasSubstr("'x' is not a time"));
    EXPECT_THAT(bad("10.1.0.0/16 1 1 101"), HasSubstr("'101' is not a percentage"));
    EXPECT_THAT(bad("10.1.0.0/33 1"), HasSubstr("'10.1.0.0/33' is not a prefix; give one such as"));
    EXPECT_THAT(bad("10.1.0.0/ 1"), HasSubstr("is not a prefix"));
    EXPECT_THAT(bad("10.1.0.0/-1 1"), HasSubstr("is not a prefix"));
    EXPECT_THAT(bad("/8 1"), HasSubstr("is not a prefix"));
    EXPECT_THAT(bad("example.org 1"), HasSubstr("'example.org' is not a prefix"));
    EXPECT_THAT(bad("10.1.0.1/16 1"), HasSubstr("write 10.1.0.0/16"));
    EXPECT_THAT(bad("10.0.0.0/8 2"), HasSubstr("'10.0.0.0/8' is there twice"));
    EXPECT_THAT(bad("default 1\ndefault 2"), HasSubstr("paths:3: 'default' is there twice"));
    EXPECT_EQ(bad("10.0.0.0/8 1.0"), "");
}

/// What a table must say, by looking at every row.
class BruteForce {
public:
    struct Row {
        IpAddress address;
        unsigned length;
        Nanoseconds rtt;
    };

    void add(const Row& row) { rows_.push_back(row); }

    [[nodiscard]] std::optional<Nanoseconds> find(const IpAddress& far) const {
        const Row* best = nullptr;
        for (const Row& row : rows_) {
            if (holds(row, far) && (best == nullptr || row.length > best->length)) {
                best = &row;
            }
        }
        return best != nullptr ? std::optional(best->rtt) : std::nullopt;
    }

private:
    static bool holds(const Row& row, const IpAddress& far) {
        if (row.address.family != far.family) {
            return false;
        }
        for (unsigned bit = 0; bit < row.length; ++bit) {
            const unsigned shift = 7 - bit % 8;
            if (((row.address.bytes[bit / 8] ^ far.bytes[bit / 8]) >> shift & 1U) != 0) {
                return false;
            }
        }
        return true;
    }

    std::vector<Row> rows_;
};

/// Addresses out of few values a byte, so that prefixes nest.
IpAddress near_address(std::mt19937& random, bool v4) {
    std::array<std::uint8_t, 16> bytes{};
    for (auto& byte : bytes) {
        byte = static_cast<std::uint8_t>(random() % 3 * 127);
    }
    return v4 ? IpAddress::v4(bytes.data()) : IpAddress::v6(bytes.data());
}

TEST(RttTable, AgreesWithLookingAtEveryRow) {
    std::mt19937 random(42);
    BruteForce truth;
    std::string text;
    for (unsigned number = 1; number <= 400; ++number) {
        const bool v4 = random() % 2 == 0;
        IpAddress network = near_address(random, v4);
        const auto length = static_cast<unsigned>(random() % (v4 ? 33 : 129));
        for (size_t bit = length; bit < network.size() * 8; ++bit) {
            network.bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
        }
        const std::string prefix = fmt::format("{}/{} ", network.text(), length);
        if (text.find(prefix) == std::string::npos) {
            truth.add({network, length, number * kMs});
            text += fmt::format("{}{}\n", prefix, number);
        }
    }
    const RttTable paths = table(text);
    for (int i = 0; i < 4'000; ++i) {
        const IpAddress far = near_address(random, i % 2 == 0);
        const Path* found = paths.find(far);
        ASSERT_EQ(found != nullptr ? std::optional(found->rtt) : std::nullopt, truth.find(far))
            << far.text();
    }
}

TEST(RttTable, EachOfManyAddressesHasItsOwn) {
    constexpr std::uint32_t kMany = 70'000;
    std::ostringstream text;
    for (std::uint32_t i = 0; i < kMany; ++i) {
        text << "10." << (i >> 16U) << '.' << (i >> 8U & 255U) << '.' << (i & 255U) << ' ' << i % 97
             << '\n';
    }
    const RttTable paths = table(text.str());
    for (std::uint32_t i = 0; i < kMany; ++i) {
        const std::array<std::uint8_t, 4> four{10, static_cast<std::uint8_t>(i >> 16U),
                                               static_cast<std::uint8_t>(i >> 8U),
                                               static_cast<std::uint8_t>(i)};
        const Path* found = paths.find(IpAddress::v4(four.data()));
        ASSERT_NE(found, nullptr) << i;
        ASSERT_EQ(found->rtt, i % 97 * kMs) << i;
    }
    EXPECT_EQ(paths.find(address("10.15.66.63")), nullptr);
}

// --- distributions
// ---------------------------------------------------------------------------------

TEST(NormalQuantile, KnowsTheTextbook) {
    EXPECT_NEAR(normal_quantile(0.5), 0, 1e-9);
    EXPECT_NEAR(normal_quantile(0.975), 1.959963985, 1e-8);
    EXPECT_NEAR(normal_quantile(0.01), -2.326347874, 1e-8);
    EXPECT_NEAR(normal_quantile(1e-12), -7.034483825, 1e-7);
}

TEST(RttDistribution, ShapesHaveTheirQuantiles) {
    const RttDistribution normal = rtt_distribution("normal:20,5");
    EXPECT_EQ(normal(0.5), 20 * kMs);
    EXPECT_NEAR(static_cast<double>(normal(0.8413447461)), 25e6, 10);
    const RttDistribution uniform = rtt_distribution("uniform:10,30");
    EXPECT_EQ(uniform(0), 10 * kMs);
    EXPECT_EQ(uniform(0.75), 25 * kMs);
    const RttDistribution lognormal = rtt_distribution("lognormal:40,0.5");
    EXPECT_EQ(lognormal(0.5), 40 * kMs);
    EXPECT_NEAR(static_cast<double>(lognormal(0.8413447461)), 40e6 * std::exp(0.5), 100);
}

TEST(RttDistribution, StaysInRange) {
    const RttDistribution wide = rtt_distribution("normal:1,50");
    EXPECT_EQ(wide(0.01), 0);
    EXPECT_EQ(wide(0), 0);
    const RttDistribution endless = rtt_distribution("lognormal:100000,10");
    EXPECT_EQ(endless(0.999999), 100'000 * kMs);
}

TEST(RttDistribution, DrawsFromAFile) {
    const TemporaryFile file("# seen\n30\n10.5\n\n 20\t\n40 # far\n");
    const RttDistribution observed = rtt_distribution(file.path());
    EXPECT_EQ(observed(0), 10'500'000);
    EXPECT_EQ(observed(0.26), 20 * kMs);
    EXPECT_EQ(observed(0.5), 30 * kMs);
    EXPECT_EQ(observed(std::nextafter(1.0, 0.0)), 40 * kMs);
}

TEST(RttDistribution, SaysWhatIsWrong) {
    const auto bad = [](const std::string& text) {
        return complaint([&] { rtt_distribution(text); });
    };
    for (const char* text : {"normal:20", "normal:20,5,1", "normal:x,5", "normal:-1,5",
                             "normal:20,100001", "uniform:30,10", "lognormal:20,11", "normal:"}) {
        EXPECT_THAT(bad(text), HasSubstr(fmt::format("{} is not a distribution; give", text)));
    }
    EXPECT_THAT(bad("/nonexistent/seen"), HasSubstr("cannot be opened: No such file"));
    EXPECT_THAT(bad("gamma:1,2"), HasSubstr("gamma:1,2 cannot be opened"));
    const TemporaryFile words("12\nfar\n");
    EXPECT_EQ(bad(words.path()), words.path() +
                                     ":2: 'far' is not a time; give one of 0 to 100000 ms "
                                     "a line");
    const TemporaryFile empty("# nothing\n");
    EXPECT_THAT(bad(empty.path()), HasSubstr("holds no round trip; give one in ms a line"));
}

// --- models
// ----------------------------------------------------------------------------------------

TEST(DelayModel, NoneWithoutOptions) { EXPECT_EQ(make_model({}, 0.5, 1), nullptr); }

TEST(DelayModel, EachSideWaitsItsShare) {
    const DelayOptions options{.rtt_ms = 20};
    EXPECT_EQ(make_model(options, 0.5, 0)->draw(numbered(1)).delay, 10 * kMs);
    EXPECT_EQ(make_model(options, 0.5, 1)->draw(numbered(1)).delay, 10 * kMs);
    EXPECT_EQ(make_model(options, 1, 2)->draw(numbered(1)).delay, 20 * kMs);
    const DelayOptions most{.rtt_ms = 20, .share = 0.75};
    EXPECT_EQ(make_model(most, 0.5, 1)->draw(numbered(1)).delay, 15 * kMs);
}

TEST(DelayModel, ADistanceStaysAndBothSidesAgree) {
    const DelayOptions options{.rtt_distribution = "uniform:10,30", .seed = 5};
    const DelayOptions other{.rtt_distribution = "uniform:10,30", .seed = 6};
    const auto here = make_model(options, 0.5, 0);
    const auto there = make_model(options, 0.5, 1);
    const auto elsewhere = make_model(other, 0.5, 1);
    unsigned same = 0;
    double sum = 0;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        const Nanoseconds delay = here->draw(numbered(i)).delay;
        EXPECT_EQ(delay, here->draw(numbered(i)).delay);
        EXPECT_EQ(delay, there->draw(numbered(i)).delay);
        EXPECT_GE(delay, 5 * kMs);
        EXPECT_LE(delay, 15 * kMs);
        same += delay == elsewhere->draw(numbered(i)).delay ? 1U : 0U;
        sum += static_cast<double>(delay);
    }
    EXPECT_LT(same, 10U);
    EXPECT_NEAR(sum / 10'000, 10e6, 0.1e6);
}

TEST(DelayModel, JitterSpreadsBothWaysAndNeverBelowZero) {
    const DelayOptions options{.rtt_ms = 20, .jitter_ms = 4};
    const auto model = make_model(options, 1, 2);
    std::vector<Nanoseconds> delays(20'000);
    std::ranges::generate(delays, [&] { return model->draw(numbered(1)).delay; });
    std::ranges::sort(delays);
    EXPECT_GE(delays.front(), 16 * kMs);
    EXPECT_LE(delays.back(), 24 * kMs);
    EXPECT_NEAR(static_cast<double>(delays[5'000]), 18e6, 0.1e6);
    EXPECT_NEAR(static_cast<double>(delays[15'000]), 22e6, 0.1e6);
    const DelayOptions near{.rtt_ms = 1, .jitter_ms = 4};
    const auto short_path = make_model(near, 1, 2);
    for (int i = 0; i < 1'000; ++i) {
        EXPECT_GE(short_path->draw(numbered(1)).delay, 0);
    }
}

TEST(DelayModel, LosesTheShareAskedForEachSideByItself) {
    const DelayOptions options{.loss_percent = 10};
    const auto here = make_model(options, 0.5, 0);
    const auto there = make_model(options, 0.5, 1);
    unsigned lost = 0;
    unsigned both = 0;
    for (int i = 0; i < 100'000; ++i) {
        const bool first = here->draw(numbered(1)).lost;
        const bool second = there->draw(numbered(1)).lost;
        lost += first ? 1U : 0U;
        both += first && second ? 1U : 0U;
    }
    EXPECT_NEAR(lost, 10'000, 500);
    EXPECT_NEAR(both, 1'000, 200);
    const auto all = make_model({.loss_percent = 100}, 0.5, 1);
    EXPECT_TRUE(all->draw(numbered(1)).lost);
}

TEST(DelayModel, IsTheSameForASeed) {
    const DelayOptions options{.rtt_ms = 20, .jitter_ms = 9, .loss_percent = 20, .seed = 77};
    const auto first = make_model(options, 0.5, 1);
    const auto again = make_model(options, 0.5, 1);
    for (std::uint32_t i = 0; i < 1'000; ++i) {
        const DrawnDelay one = first->draw(numbered(i));
        const DrawnDelay two = again->draw(numbered(i));
        ASSERT_EQ(one.delay, two.delay);
        ASSERT_EQ(one.lost, two.lost);
    }
}

TEST(DelayModel, TheTableComesFirst) {
    const TemporaryFile file("192.0.0.0/24 8 0 100\n192.0.1.0/24 6\n");
    const DelayOptions options{.rtt_ms = 50, .rtt_table = file.path(), .jitter_ms = 0};
    const auto model = make_model(options, 1, 2);
    EXPECT_TRUE(model->draw(numbered(1)).lost);
    EXPECT_EQ(model->draw(numbered(0x101)).delay, 6 * kMs);
    EXPECT_EQ(model->draw(numbered(0x201)).delay, 50 * kMs);
}

TEST(DelayModel, AnAddressThatATableLeavesIsTold) {
    const TemporaryFile file("192.0.0.0/24 8\n");
    const auto listed = [&](DelayOptions options) {
        options.rtt_table = file.path();
        const auto model = make_model(options, 1, 2);
        EXPECT_TRUE(model->draw(numbered(1)).listed);
        return model->draw(numbered(0x101)).listed;
    };
    EXPECT_FALSE(listed({}));
    EXPECT_FALSE(listed({.jitter_ms = 1}));
    EXPECT_TRUE(listed({.rtt_ms = 0}));
    EXPECT_TRUE(listed({.rtt_distribution = "uniform:1,2"}));
    EXPECT_TRUE(make_model({.jitter_ms = 1}, 1, 2)->draw(numbered(1)).listed);
}

TEST(DelayOptions, AreReadFromTheCommandLine) {
    Command app;
    DelayOptions options;
    add_delay_options(app, options);
    app.parse({"--rtt-ms", "12.5", "--jitter-ms", "1", "--loss-percent", "0.5", "--share", "0.25",
               "--seed", "9", "--table", "T"});
    EXPECT_EQ(options.rtt_ms, 12.5);
    EXPECT_EQ(options.jitter_ms, 1.0);
    EXPECT_EQ(options.loss_percent, 0.5);
    EXPECT_EQ(options.share, 0.25);
    EXPECT_EQ(options.seed, 9U);
    EXPECT_EQ(options.rtt_table, "T");
}

TEST(DelayOptions, ANegativeSeedIsNone) {
    Command app;
    DelayOptions options;
    add_delay_options(app, options);
    EXPECT_THROW(app.parse({"--seed", "-4"}), UsageError);
    EXPECT_THROW(app.parse({"--seed", "18446744073709551616"}), UsageError);
}

TEST(DelayOptions, SayWhatIsWrong) {
    const auto bad = [](const DelayOptions& options) {
        return complaint([&] { make_model(options, 0.5, 1); });
    };
    EXPECT_EQ(bad({.rtt_ms = -1}), "--rtt-ms -1 is out of range; give 0 to 100000");
    EXPECT_EQ(bad({.rtt_ms = NAN}), "--rtt-ms nan is out of range; give 0 to 100000");
    EXPECT_EQ(bad({.loss_percent = 101}), "--loss-percent 101 is out of range; give 0 to 100");
    EXPECT_EQ(bad({.rtt_ms = 1, .share = 1.5}), "--share 1.5 is out of range; give 0 to 1");
    EXPECT_THAT(bad({.rtt_ms = 1, .rtt_distribution = "normal:1,1"}), HasSubstr("both given"));
    EXPECT_THAT(bad({.rtt_table = "/nonexistent/t"}), HasSubstr("cannot be opened: No such file"));
    EXPECT_THAT(bad({.rtt_distribution = ::testing::TempDir()}), HasSubstr("cannot be read: "));
    EXPECT_THAT(bad({.share = 0.5}), HasSubstr("give --rtt-ms or another delay too"));
    const TemporaryFile empty("# nothing\n");
    EXPECT_THAT(bad({.rtt_table = empty.path()}), HasSubstr("holds no row; write PREFIX rtt_ms"));
    const TemporaryFile whole("default 4\n");
    EXPECT_THAT(bad({.rtt_ms = 1, .rtt_table = whole.path()}),
                HasSubstr("has a row `default` and --rtt-ms is given too; leave one out"));
}

} // namespace
} // namespace reprise::proxy
