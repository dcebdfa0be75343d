#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "proxy/stateless/common/options.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::proxy {
namespace {

using ::testing::HasSubstr;

StatelessOptions parsed(std::vector<std::string> words) {
    Command app;
    StatelessOptions read;
    add_stateless(app, read);
    words.insert(words.begin(), {"stateless", "--interface", "eth0"});
    app.parse(words);
    complete(app.get_subcommand("stateless"), read);
    return read;
}

std::string complaint(const std::vector<std::string>& words) {
    try {
        parsed(words);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(StatelessOptions, DefaultsAreThoseOfTheFront) {
    const StatelessOptions reference = parsed({"--front", "reference"});
    EXPECT_EQ(reference.front, FrontKind::kReference);
    EXPECT_EQ(reference.interfaces, std::vector<std::string>{"eth0"});
    EXPECT_EQ(reference.port, 53);
    EXPECT_EQ(reference.timeout_ms, 3'000U);
    EXPECT_EQ(reference.loglevel, 1U);
    EXPECT_EQ(reference.tun, "stateless0");
    EXPECT_TRUE(reference.early_ack);
    EXPECT_FALSE(reference.active || reference.axfr_detect || reference.fin_last);
    const StatelessOptions bpf = parsed({"--front", "bpf"});
    EXPECT_FALSE(bpf.early_ack);
    EXPECT_TRUE(bpf.promote && bpf.axfr_detect);
    EXPECT_EQ(bpf.entries, 65'536U);
    EXPECT_EQ(bpf.rotate_s, 600U);
    EXPECT_EQ(bpf.truncate_udp, 0U);
}

TEST(StatelessOptions, AreTakenOver) {
    const StatelessOptions reference =
        parsed({"--front", "reference", "--active", "1", "--axfr-detect", "1", "--fin-last",
                "--no-early-ack", "--tun", "tun7", "--port", "5353", "--timeout-ms", "50"});
    EXPECT_TRUE(reference.active && reference.axfr_detect && reference.fin_last);
    EXPECT_FALSE(reference.early_ack);
    EXPECT_EQ(reference.tun, "tun7");
    EXPECT_EQ(reference.port, 5'353);
    EXPECT_EQ(parsed({"--front", "reference", "--interface", "eth1"}).interfaces,
              (std::vector<std::string>{"eth0", "eth1"}));
    EXPECT_EQ(reference.timeout_ms, 50U);
    const StatelessOptions bpf =
        parsed({"--front", "bpf", "--early-ack", "--no-promote", "--entries", "9", "--rotate", "8",
                "--truncate-udp", "--timed"});
    EXPECT_TRUE(bpf.early_ack && bpf.timed);
    EXPECT_FALSE(bpf.promote);
    EXPECT_EQ(bpf.entries, 9U);
    EXPECT_EQ(bpf.rotate_s, 8U);
    EXPECT_EQ(bpf.truncate_udp, 512U);
    EXPECT_FALSE(parsed({"--front", "bpf", "--axfr-detect", "0"}).axfr_detect);
    EXPECT_EQ(parsed({"--front", "bpf", "--truncate-udp", "700"}).truncate_udp, 700U);
    EXPECT_EQ(parsed({"--front", "reference", "--truncate-udp"}).truncate_udp, 512U);
}

TEST(StatelessOptions, OfTheOtherFrontAreRefused) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--tun", "tun7"}, {"--active", "0"}, {"--fin-last"}}) {
        std::vector<std::string> all{"--front", "bpf"};
        all.insert(all.end(), words.begin(), words.end());
        EXPECT_EQ(complaint(all), words[0] + " is an option of --front reference; leave it out, or "
                                             "give --front reference");
    }
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--no-promote"}, {"--entries", "9"}, {"--rotate", "9"}}) {
        std::vector<std::string> all{"--front", "reference"};
        all.insert(all.end(), words.begin(), words.end());
        EXPECT_EQ(complaint(all),
                  words[0] + " is an option of --front bpf; leave it out, or give --front bpf");
    }
}

TEST(StatelessOptions, BadOnesAreRefused) {
    EXPECT_THAT(complaint({}), HasSubstr("--front is required"));
    EXPECT_THAT(complaint({"--front", "kernel"}), HasSubstr("not in {reference,bpf}"));
    EXPECT_EQ(complaint({"--front", "bpf", "--interface", "eth1"}),
              "--front bpf serves one --interface; start one for each");
    EXPECT_THAT(complaint({"--front", "reference", "--active", "2"}), HasSubstr("not in {0,1}"));
    EXPECT_THAT(complaint({"--front", "reference", "--timeout-ms", "0"}),
                HasSubstr("--timeout-ms"));
    EXPECT_THAT(complaint({"--front", "reference", "--loglevel", "4"}), HasSubstr("--loglevel"));
    EXPECT_EQ(complaint({"--front", "reference", "--early-ack", "--no-early-ack"}),
              "--early-ack or --no-early-ack is given twice; give one of them once");
}

} // namespace
} // namespace reprise::proxy
