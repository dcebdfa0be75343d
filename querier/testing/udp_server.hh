#pragma once
// A UDP server in a thread that remembers whom it heard and says what a test wants, when and from
// where it wants.

#include "core/address.hh"
#include "core/clock.hh"
#include "core/fd.hh"
#include "querier/testing/responder.hh"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace reprise::querier::testing {

/// A query as it came.
struct Seen {
    Endpoint peer;
    Message query;
};

/// Which socket an answer leaves from.
enum class From : std::uint8_t { kServer, kOtherPort, kOtherAddress };

struct Say {
    Message message;
    Nanoseconds after = 0;
    From from = From::kServer;
};

class UdpServer {
public:
    /// `seen` has the queries so far, the newest last.
    using Answer = std::function<std::vector<Say>(const std::vector<Seen>& seen)>;

    /// `endpoint` is on loopback; the port after it and 127.0.0.9 are taken as well.
    UdpServer(const std::string& endpoint, Answer answer);
    ~UdpServer();
    UdpServer(const UdpServer&) = delete;
    UdpServer& operator=(const UdpServer&) = delete;

    /// Answers everything `after` so long.
    static Answer echo(Nanoseconds after = 0);
    static Answer silence();

    [[nodiscard]] std::vector<Seen> seen() const;

    /// The most queries it had not answered at one moment.
    [[nodiscard]] size_t most_open() const { return most_open_; }

private:
    struct Due {
        Say say;
        Endpoint peer;
    };

    void serve();
    void take();
    void say_due();

    std::array<FileDescriptor, 3> sockets_; ///< by From
    Answer answer_;
    std::multimap<Nanoseconds, Due> waiting_;
    mutable std::mutex mutex_;
    std::vector<Seen> seen_; ///< under mutex_
    std::atomic<size_t> most_open_ = 0;
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

} // namespace reprise::querier::testing
