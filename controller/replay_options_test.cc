#include "controller/options.hh"
#include "controller/replay_options.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/wire/replay.pb.h"

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

Options parsed(const std::string& arguments) {
    std::istringstream text("--run-id r --distributor 127.0.0.1:1 --cert c --key k --ca a "
                            "--server 127.0.0.1 trace.pcap " +
                            arguments);
    const std::vector<std::string> words(std::istream_iterator<std::string>(text), {});
    Command app;
    Options options;
    add_options(app, options);
    app.parse(words);
    return options;
}

wire::Options told(const std::string& arguments) {
    const Options options = parsed(arguments);
    validate(options);
    return replay_options(options, parse_servers(options.servers, options.server_port));
}

TEST(ReplayOptions, DefaultsOfConnectionsAndTls) {
    const wire::Options options = told("");
    EXPECT_EQ(options.idle_timeout_ns(), 20 * kSecond);
    EXPECT_EQ(options.queries_per_connection(), 0U);
    EXPECT_FALSE(options.server_closes());
    EXPECT_FALSE(options.tcp_fallback());
    EXPECT_EQ(options.tls().port(), 853U);
    EXPECT_EQ(options.tls().version(), "any");
    EXPECT_TRUE(options.tls().verify());
    EXPECT_EQ(options.tls().authorities_pem(), "");
    EXPECT_EQ(options.tls().name(), "");
    EXPECT_FALSE(options.tls().resume());
    EXPECT_FALSE(options.tls().early_data());
}

TEST(ReplayOptions, ConnectionsAsAsked) {
    const wire::Options options =
        told("--transport tcp --queries-per-connection 7 --closer server --tcp-fallback "
             "--idle-timeout-s 0.5");
    EXPECT_EQ(options.queries_per_connection(), 7U);
    EXPECT_TRUE(options.server_closes());
    EXPECT_TRUE(options.tcp_fallback());
    EXPECT_EQ(options.idle_timeout_ns(), kSecond / 2);
}

TEST(ReplayOptions, TlsAsAsked) {
    const wire::Options options =
        told("--transport tls --tls-port 8853 --tls-version 1.3 --tls-name ns.example --tls-resume "
             "--tls-early-data --no-tls-verify");
    const wire::Tls& tls = options.tls();
    EXPECT_EQ(tls.port(), 8853U);
    EXPECT_EQ(tls.version(), "1.3");
    EXPECT_EQ(tls.name(), "ns.example");
    EXPECT_TRUE(tls.resume());
    EXPECT_TRUE(tls.early_data());
    EXPECT_FALSE(tls.verify());
}

TEST(ReplayOptions, NumbersOutOfRangeAreRefused) {
    for (const char* bad : {"--tls-port 65536", "--tls-port -1", "--queries-per-connection -1",
                            "--queries-per-connection 5000000000"}) {
        EXPECT_THROW(parsed(bad), UsageError) << bad;
    }
    EXPECT_THROW(told("--tls-port 0"), UsageError);
    EXPECT_THROW(told("--queries-per-connection 1000001"), UsageError);
}

} // namespace
} // namespace reprise::controller
