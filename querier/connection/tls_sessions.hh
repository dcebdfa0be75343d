#pragma once
// The TLS sessions of the sources, for resumption. Each source has its own, as real clients do:
// sharing them would make servers see replays of single-use tickets (RFC 8446, section 8.1).

#include <openssl/ssl.h>
#include <openssl/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

namespace reprise::querier {

struct FreeSession {
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

using TlsSession = std::unique_ptr<SSL_SESSION, FreeSession>;

class TlsSessions {
public:
    /// Servers send two tickets a handshake, so that a client may open two connections at once.
    static constexpr size_t kMostOfASource = 2;

    /// At the limit the one that was stored longest ago goes.
    explicit TlsSessions(size_t limit) : limit_(limit) {}

    /// Goes in the place of the source's oldest where it has enough.
    void store(std::uint32_t source, TlsSession session);

    /// The source's newest session, which leaves the store: tickets are for one use. Null where
    /// there is none.
    TlsSession take(std::uint32_t source);

    [[nodiscard]] size_t size() const { return entries_.size(); }

private:
    struct Entry {
        std::uint32_t source;
        TlsSession session;
    };

    struct OfASource {
        std::array<std::list<Entry>::iterator, kMostOfASource> entries; ///< oldest first
        size_t count = 0;
    };

    void drop_oldest(std::uint32_t source);

    size_t limit_;
    std::list<Entry> entries_; ///< oldest first
    std::unordered_map<std::uint32_t, OfASource> by_source_;
};

} // namespace reprise::querier
