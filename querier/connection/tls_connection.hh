#pragma once
// The client's side of TLS as a function of bytes: what came from the network goes in, plaintext
// and what is to be sent come out. No sockets here: OpenSSL reads from and writes to memory, so
// that the handshake's last flight and the first query leave in one segment, and answers keep the
// kernel's stamps.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/openssl.hh"
#include "core/wire/settings.hh"
#include "querier/carrier/replay_options.hh"

#include <openssl/ssl.h>
#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace reprise::querier {

// The TLS sessions of the sources, for resumption. Each source has its own, as real clients do:
// sharing them would make servers see replays of single-use tickets (RFC 8446, section 8.1). A
// source has sessions of its own with each server.

class TlsSessions {
public:
    /// Servers send two tickets a handshake, so that a client may open two connections at once.
    static constexpr size_t kMostOfASource = 2;

    /// At the limit the one that was stored longest ago goes.
    explicit TlsSessions(size_t limit) : limit_(limit) {}

    /// Goes in the place of the source's oldest where it has enough.
    void store(std::uint64_t source, TlsSession session);

    /// The source's newest session, which leaves the store: tickets are for one use. Null where
    /// there is none.
    TlsSession take(std::uint64_t source);

    [[nodiscard]] size_t size() const { return entries_.size(); }

private:
    struct Entry {
        std::uint64_t source;
        TlsSession session;
    };

    using BySource = std::multimap<std::uint64_t, std::list<Entry>::iterator>;

    TlsSession remove(BySource::iterator one);

    size_t limit_;
    std::list<Entry> entries_; ///< oldest first
    BySource by_source_;       ///< of each source, too
};

class TlsConnection;

/// What all connections share: settings, sessions, the buffers of one step.
class TlsClient {
public:
    /// Throws Error where OpenSSL refuses the options.
    explicit TlsClient(const ReplayOptions& options);

    /// To be sent on the connection that was worked on last; whoever sends it empties it.
    std::vector<std::uint8_t>& out() { return out_; }

private:
    friend class TlsConnection;

    static int take_session(SSL* ssl, SSL_SESSION* session);

    TlsSettings options_;
    TlsContext context_;
    TlsOwner<BIO_METHOD> method_;
    TlsSessions sessions_;
    std::vector<std::uint8_t> out_;
    std::vector<std::uint8_t> plain_;
};

/// One connection. Call handshake() until it is done, then seal() and read().
class TlsConnection {
public:
    enum class Result : std::uint8_t {
        kDone,   ///< handshake(): finished; read(): some plaintext
        kMore,   ///< it needs more from the network
        kClosed, ///< the server closed its side in order
        kFailed  ///< see reason()
    };

    /// `client` must outlive it. `source` owns the session.
    TlsConnection(TlsClient& client, std::uint64_t source, const Endpoint& server);
    ~TlsConnection();

    /// Bytes from the network for the next calls; they borrow it.
    void offer(Bytes data) { wires_.in = data; }

    /// Goes on with the handshake; the first call begins it.
    Result handshake();

    /// Bytes of early data that may still be sent before the first handshake().
    [[nodiscard]] size_t early_room() const { return early_room_; }

    /// Sends `plain` with the first flight. False: it is not possible; nothing was sent.
    bool seal_early(Bytes plain);

    /// Encrypts into the client's out(), as one record where it is small. Only after the handshake.
    bool seal(Bytes plain);

    /// Plaintext, lent until the next call.
    Result read(std::span<std::uint8_t>& plain);

    /// Tells the server that nothing follows (close_notify).
    void close();

    /// Known after the handshake.
    [[nodiscard]] bool resumed() const;
    [[nodiscard]] bool early_accepted() const;

    [[nodiscard]] bool early_sent() const { return early_sent_; }

    /// Why it failed, e.g. "certificate has expired"; short, the same for the same reason.
    [[nodiscard]] const std::string& reason() const { return reason_; }

private:
    friend class TlsClient;

    /// Both ends of the BIO.
    struct Wires {
        Bytes in;
        std::vector<std::uint8_t>* out = nullptr;
    };

    static BIO_METHOD* make_method();
    Result judge(int result);
    void explain();

    TlsClient& client_;
    std::uint64_t source_;
    TlsOwner<SSL> ssl_;
    Wires wires_;
    size_t early_room_ = 0;
    bool early_sent_ = false;
    std::string reason_;
};

} // namespace reprise::querier
