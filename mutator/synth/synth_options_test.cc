#include "core/base/error.hh"
#include "mutator/synth/synth_options.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

namespace reprise::mutator {
namespace {

using ::testing::HasSubstr;

/// The message of the usage error that a changed option causes, or "" where there is none.
std::string complaint(const std::function<void(SynthOptions&)>& change) {
    SynthOptions options;
    change(options);
    try {
        check_options(options);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(SynthOptions, DefaultsAreGood) {
    const SynthSettings settings = check_options({});
    EXPECT_EQ(settings.duration_ns, 60e9);
    EXPECT_EQ(settings.types.front(), (WeightedNumber{1, 57}));
    EXPECT_EQ(settings.server6.text(), "[2001:db8::53]:53");
    EXPECT_EQ(settings.clients4.free_bits(), 17U);
}

TEST(SynthOptions, SharesMustBeShares) {
    EXPECT_THAT(complaint([](auto& o) { o.ipv6_share = -0.1; }), HasSubstr("--ipv6-share -0.1"));
    EXPECT_THAT(complaint([](auto& o) { o.tcp_share = 1.5; }), HasSubstr("give 0 to 1"));
    EXPECT_THAT(complaint([](auto& o) { o.edns_share = 2; }), HasSubstr("--edns-share"));
    EXPECT_THAT(complaint([](auto& o) { o.do_share = 2; }), HasSubstr("--do-share"));
    EXPECT_THAT(complaint([](auto& o) { o.junk_share = std::nan(""); }), HasSubstr("--junk-share"));
    EXPECT_THAT(complaint([](auto& o) { o.rd_share = -1; }), HasSubstr("--rd-share"));
}

TEST(SynthOptions, AbsurdSizesAreRefused) {
    EXPECT_THAT(complaint([](auto& o) { o.rate_qps = 0; }), HasSubstr("--rate 0"));
    EXPECT_THAT(complaint([](auto& o) { o.rate_qps = 1e12; }), HasSubstr("--rate"));
    EXPECT_THAT(complaint([](auto& o) { o.queries = 0; }), HasSubstr("--queries 0"));
    EXPECT_THAT(complaint([](auto& o) { o.duration_s = -1; }), HasSubstr("--duration -1"));
    EXPECT_THAT(complaint([](auto& o) { o.clients = 0; }), HasSubstr("--clients 0"));
    EXPECT_THAT(complaint([](auto& o) { o.tcp_queries = 0.5; }), HasSubstr("--tcp-queries"));
    EXPECT_THAT(complaint([](auto& o) { o.queries = 10, o.duration_s = 1; }),
                HasSubstr("give one of them"));
}

TEST(SynthOptions, TheTraceMustEndBeforePcapDoes) {
    EXPECT_THAT(complaint([](auto& o) { o.queries = 1'000'000'000'000, o.rate_qps = 1; }),
                HasSubstr("2106"));
    EXPECT_THAT(complaint([](auto& o) { o.start_s = 4'294'967'290.0; }), HasSubstr("2106"));
}

TEST(SynthOptions, ClientsMustFitTheirPrefix) {
    EXPECT_THAT(complaint([](auto& o) { o.client_prefix = "198.18.0.0/30", o.clients = 3; }),
                HasSubstr("too few addresses"));
    EXPECT_EQ(complaint([](auto& o) { o.client_prefix = "198.18.0.0/30", o.clients = 2; }), "");
    EXPECT_EQ(complaint([](auto& o) {
                  o.client_prefix = "198.18.0.0/30", o.clients = 3, o.ipv6_share = 1;
              }),
              "");
}

TEST(SynthOptions, AddressesAreOfTheirFamily) {
    EXPECT_THAT(complaint([](auto& o) { o.server = "::1"; }), HasSubstr("not an IPv4 address"));
    EXPECT_THAT(complaint([](auto& o) { o.server6 = "host"; }), HasSubstr("not an IPv6 address"));
    EXPECT_THAT(complaint([](auto& o) { o.client_prefix = "10.0.0.0"; }), HasSubstr("prefix"));
    EXPECT_THAT(complaint([](auto& o) { o.client_prefix6 = "::/129"; }), HasSubstr("prefix"));
    SynthOptions options;
    options.client_prefix = "198.51.100.77/16";
    EXPECT_EQ(check_options(options).clients4.address.text(), "198.51.0.0");
}

TEST(SynthOptions, Mixes) {
    SynthOptions options;
    options.edns_sizes = "4096:60,512:0";
    options.types = "A:1.5,aaaa,TYPE65280:2";
    const SynthSettings settings = check_options(options);
    EXPECT_EQ(settings.types, (Mix{{1, 1.5}, {28, 1}, {65'280, 2}}));
    EXPECT_EQ(settings.edns_sizes, (Mix{{4096, 60}, {512, 0}}));
    for (const char* bad :
         {"", "A:", "A:-1", "A:x", "A:1,,B:1", "WHAT:1", "A:0", "A:1e10", "A:nan"}) {
        EXPECT_THAT(complaint([&](auto& o) { o.types = bad; }), HasSubstr("--types")) << bad;
    }
    EXPECT_THAT(complaint([](auto& o) { o.edns_sizes = "65536:1"; }), HasSubstr("--edns-sizes"));
}

} // namespace
} // namespace reprise::mutator
