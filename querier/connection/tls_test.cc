// The client's side of TLS against a server in memory: no sockets, no clocks but OpenSSL's for
// certificates.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/testing/tls_server.hh"

#include <gtest/gtest.h>
#include <openssl/prov_ssl.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

using Bytes8 = std::vector<std::uint8_t>;
using Result = TlsConnection::Result;
using testing::MemoryTlsServer;
using testing::ServerOptions;

const Bytes8 kQuery{0, 4, 1, 2, 3, 4};
const Bytes8 kAnswer{0, 3, 9, 8, 7};

class TlsTest : public ::testing::Test {
protected:
    static ReplayOptions trusting(const MemoryTlsServer& server) {
        ReplayOptions options;
        options.authorities = server.pem();
        options.tls.name = "server.example";
        return options;
    }

    static Endpoint address() { return Endpoint::parse("192.0.2.1:853").value_or(Endpoint{}); }

    /// What is to be sent, in pieces of at most `piece` bytes to the server; its words in turn.
    static Bytes8 exchange(MemoryTlsServer::Session& server, Bytes8& out, size_t piece) {
        Bytes8 back;
        const Bytes8 all = std::exchange(out, {});
        for (size_t at = 0; at < all.size(); at += piece) {
            const Bytes8 said =
                server.feed(Bytes(all).subspan(at, std::min(piece, all.size() - at)));
            back.insert(back.end(), said.begin(), said.end());
        }
        return back;
    }

    /// Plays the handshake to its end; the client's last flight stays in its out().
    static Result shake(TlsClient& client, TlsConnection& connection,
                        MemoryTlsServer::Session& server, size_t piece = 100000) {
        Result result = connection.handshake();
        for (int round = 0; round < 10 && result == Result::kMore; ++round) {
            const Bytes8 said = exchange(server, client.out(), piece);
            for (size_t at = 0; at < said.size() && result == Result::kMore; at += piece) {
                connection.offer(Bytes(said).subspan(at, std::min(piece, said.size() - at)));
                result = connection.handshake();
            }
        }
        return result;
    }

    static Bytes8 read_all(TlsConnection& connection, Bytes data, Result& end) {
        Bytes8 heard;
        std::span<std::uint8_t> plain;
        connection.offer(data);
        while ((end = connection.read(plain)) == Result::kDone) {
            heard.insert(heard.end(), plain.begin(), plain.end());
        }
        return heard;
    }

    /// A whole connection with one query and its answer; true where it resumed a session.
    static bool talk(TlsClient& client, MemoryTlsServer& server, std::uint32_t source) {
        TlsConnection connection(client, source, address());
        const auto session = server.accept();
        EXPECT_EQ(shake(client, connection, *session), Result::kDone) << connection.reason();
        EXPECT_TRUE(connection.seal(kQuery));
        const Bytes8 tickets = exchange(*session, client.out(), 100000);
        EXPECT_EQ(session->heard(), kQuery);
        Bytes8 back = tickets;
        const Bytes8 answer = session->say(kAnswer);
        back.insert(back.end(), answer.begin(), answer.end());
        Result end = Result::kDone;
        EXPECT_EQ(read_all(connection, back, end), kAnswer);
        EXPECT_EQ(end, Result::kMore);
        const bool resumed = connection.resumed();
        connection.close();
        exchange(*session, client.out(), 100000);
        return resumed;
    }
};

TEST_F(TlsTest, TheFirstQueryJoinsTheLastFlight) {
    MemoryTlsServer server({});
    TlsClient client(trusting(server));
    for (const size_t piece : {1UL, 7UL, 100000UL}) {
        TlsConnection connection(client, 1, address());
        const auto session = server.accept();
        ASSERT_EQ(shake(client, connection, *session, piece), Result::kDone) << connection.reason();
        EXPECT_FALSE(client.out().empty()) << "the client's Finished waits for the query";
        ASSERT_TRUE(connection.seal(kQuery));
        exchange(*session, client.out(), piece);
        EXPECT_EQ(session->heard(), kQuery);
        EXPECT_FALSE(connection.resumed());
    }
}

TEST_F(TlsTest, ASourceResumesItsOwnSession) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        MemoryTlsServer server({.highest_version = version});
        ReplayOptions options = trusting(server);
        options.tls.resume = true;
        TlsClient client(options);
        EXPECT_FALSE(talk(client, server, 1));
        EXPECT_TRUE(talk(client, server, 1)) << version;
        EXPECT_TRUE(talk(client, server, 1)) << version;
        EXPECT_FALSE(talk(client, server, 2)) << "another source has another session";
    }
}

TEST_F(TlsTest, WithoutResumptionEveryHandshakeIsFull) {
    MemoryTlsServer server({});
    TlsClient client(trusting(server));
    EXPECT_FALSE(talk(client, server, 1));
    EXPECT_FALSE(talk(client, server, 1));
}

TEST_F(TlsTest, EarlyDataTravelsWithTheFirstFlight) {
    MemoryTlsServer server({.early_data = 4096});
    ReplayOptions options = trusting(server);
    options.tls.resume = options.tls.early_data = true;
    TlsClient client(options);
    talk(client, server, 1);

    TlsConnection connection(client, 1, address());
    ASSERT_EQ(connection.early_room(), 4096U);
    ASSERT_TRUE(connection.seal_early(kQuery));
    ASSERT_TRUE(connection.seal_early(kQuery));
    EXPECT_EQ(connection.early_room(), 4096U - 2 * kQuery.size());
    EXPECT_EQ(connection.handshake(), Result::kMore);
    const auto session = server.accept();
    const Bytes8 flight = exchange(*session, client.out(), 100000);
    EXPECT_EQ(session->heard().size(), 2 * kQuery.size()) << "before the client's second flight";
    connection.offer(flight);
    EXPECT_EQ(connection.handshake(), Result::kDone) << connection.reason();
    EXPECT_TRUE(connection.early_sent());
    EXPECT_TRUE(connection.early_accepted());
    EXPECT_TRUE(connection.resumed());
}

TEST_F(TlsTest, RejectedEarlyDataIsKnown) {
    MemoryTlsServer server({.early_data = 4096});
    ReplayOptions options = trusting(server);
    options.tls.resume = options.tls.early_data = true;
    TlsClient client(options);
    talk(client, server, 1);
    server.reject_early_data();

    TlsConnection connection(client, 1, address());
    ASSERT_TRUE(connection.seal_early(kQuery));
    const auto session = server.accept();
    EXPECT_EQ(shake(client, connection, *session), Result::kDone) << connection.reason();
    EXPECT_TRUE(connection.early_sent());
    EXPECT_FALSE(connection.early_accepted());
    EXPECT_TRUE(connection.seal(kQuery)) << "the query goes again";
    exchange(*session, client.out(), 100000);
    EXPECT_EQ(session->heard(), kQuery);
}

TEST_F(TlsTest, ThereIsNoRoomWithoutASession) {
    MemoryTlsServer server({.early_data = 4096});
    ReplayOptions options = trusting(server);
    options.tls.resume = options.tls.early_data = true;
    TlsClient client(options);
    TlsConnection connection(client, 1, address());
    EXPECT_EQ(connection.early_room(), 0U);
    EXPECT_FALSE(connection.seal_early(kQuery));
}

struct Refusal {
    ServerOptions server;
    std::string asked_for;
    bool trusted;
    std::string reason;
};

class TlsRefusalTest : public TlsTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(TlsRefusalTest, SaysWhyAndTellsTheServer) {
    const Refusal& param = GetParam();
    MemoryTlsServer server(param.server);
    const MemoryTlsServer stranger({});
    ReplayOptions options = trusting(param.trusted ? server : stranger);
    options.tls.name = param.asked_for;
    TlsClient client(options);
    TlsConnection connection(client, 1, address());
    const auto session = server.accept();
    EXPECT_EQ(shake(client, connection, *session), Result::kFailed);
    EXPECT_EQ(connection.reason(), param.reason);
    EXPECT_FALSE(client.out().empty()) << "an alert";

    options.tls.verify = false;
    TlsClient careless(options);
    EXPECT_FALSE(talk(careless, server, 1));
}

INSTANTIATE_TEST_SUITE_P(
    Certificates, TlsRefusalTest,
    ::testing::Values(
        Refusal{{.valid_for_s = -60}, "server.example", true, "certificate has expired"},
        Refusal{{}, "other.example", true, "hostname mismatch"},
        Refusal{{}, "", true, "IP address mismatch"},
        Refusal{{}, "server.example", false, "self-signed certificate"}));

TEST_F(TlsTest, AServerOfAnOlderVersionIsRefused) {
    MemoryTlsServer server({.highest_version = TLS1_2_VERSION});
    ReplayOptions options = trusting(server);
    options.tls.version = "1.3";
    TlsClient client(options);
    TlsConnection connection(client, 1, address());
    const auto session = server.accept();
    EXPECT_EQ(shake(client, connection, *session), Result::kFailed);
    EXPECT_EQ(connection.reason(), "tlsv1 alert protocol version");
}

TEST_F(TlsTest, ABrokenRecordEndsTheConnection) {
    MemoryTlsServer server({});
    TlsClient client(trusting(server));
    TlsConnection connection(client, 1, address());
    const auto session = server.accept();
    ASSERT_EQ(shake(client, connection, *session), Result::kDone);
    exchange(*session, client.out(), 100000);
    Bytes8 answer = session->say(kAnswer);
    answer.back() ^= 1U;
    Result end = Result::kDone;
    EXPECT_TRUE(read_all(connection, answer, end).empty());
    EXPECT_EQ(end, Result::kFailed);
    EXPECT_EQ(connection.reason(), "decryption failed or bad record mac");
}

TEST_F(TlsTest, AnOrderlyCloseIsNoFailure) {
    MemoryTlsServer server({});
    TlsClient client(trusting(server));
    TlsConnection connection(client, 1, address());
    const auto session = server.accept();
    ASSERT_EQ(shake(client, connection, *session), Result::kDone);
    const Bytes8 tickets = exchange(*session, client.out(), 100000);
    SSL_shutdown(session->ssl());
    Bytes8 notify = tickets;
    const Bytes8 last = session->feed({});
    notify.insert(notify.end(), last.begin(), last.end());
    Result end = Result::kDone;
    read_all(connection, notify, end);
    EXPECT_EQ(end, Result::kClosed);
}

TEST_F(TlsTest, AuthoritiesMustBeCertificates) {
    ReplayOptions options;
    options.authorities = "not PEM";
    EXPECT_THROW(TlsClient{options}, Error);
}

TEST(TlsSessions, AreForOneUseAndTwoOfASource) {
    TlsSessions sessions(10);
    std::vector<SSL_SESSION*> stored;
    for (int i = 0; i < 3; ++i) {
        stored.push_back(SSL_SESSION_new());
        sessions.store(1, TlsSession(stored.back()));
    }
    EXPECT_EQ(sessions.size(), 2U) << "the oldest went";
    EXPECT_EQ(sessions.take(1).get(), stored[2]);
    EXPECT_EQ(sessions.take(1).get(), stored[1]);
    EXPECT_FALSE(sessions.take(1));
    EXPECT_EQ(sessions.size(), 0U);
}

TEST(TlsSessions, AreBounded) {
    TlsSessions sessions(3);
    for (const std::uint32_t source : {1U, 2U, 1U, 3U, 4U}) {
        sessions.store(source, TlsSession(SSL_SESSION_new()));
    }
    EXPECT_EQ(sessions.size(), 3U);
    EXPECT_FALSE(sessions.take(2)) << "stored longest ago but one";
    EXPECT_TRUE(sessions.take(1));
    EXPECT_FALSE(sessions.take(1)) << "its first was stored longest ago";
    EXPECT_TRUE(sessions.take(3));
    EXPECT_TRUE(sessions.take(4));
    sessions.store(4, TlsSession(SSL_SESSION_new()));
    EXPECT_TRUE(sessions.take(4));
}

} // namespace
} // namespace reprise::querier
