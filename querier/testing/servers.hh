#pragma once
// The test servers: faults that a real server cannot be told to have, and what a test wants to know
// of who asks. A thread each, on loopback, ended with the object.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"

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

inline constexpr const char* kServer = "127.0.0.1:5300";

using Message = std::vector<std::uint8_t>;

/// A query as it came.
struct Seen {
    Endpoint peer;
    Message query;
};

/// Which socket an answer leaves from.
enum class From : std::uint8_t { kAsked, kOtherPort, kOtherAddress };

struct Say {
    Message message;
    Nanoseconds after = 0;
    From from = From::kAsked;
};

/// It remembers whom it heard and says what a test wants, when and from where it wants.
class UdpServer {
public:
    /// `seen` has the queries so far, the newest last.
    using Answer = std::function<std::vector<Say>(const std::vector<Seen>& seen)>;

    /// What a test makes of each query by itself.
    using Each = std::function<std::vector<Message>(Bytes query)>;

    /// The port after it and 127.0.0.9 are taken once an answer leaves from there.
    UdpServer(const std::string& endpoint, Answer answer);

    explicit UdpServer(Each each, const std::string& endpoint = kServer);
    ~UdpServer();
    UdpServer(const UdpServer&) = delete;
    UdpServer& operator=(const UdpServer&) = delete;

    /// Answers everything `after` so long.
    static Answer echo(Nanoseconds after = 0);
    static Answer silence();

    [[nodiscard]] std::vector<Seen> seen() const;

    [[nodiscard]] size_t count() const;

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
    int socket_of(From from);

    Endpoint own_;
    std::array<FileDescriptor, 3> sockets_; ///< by From
    Answer answer_;
    std::multimap<Nanoseconds, Due> waiting_;
    mutable std::mutex mutex_;
    std::vector<Seen> seen_; ///< under mutex_
    std::atomic<size_t> most_open_ = 0;
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

/// What a TCP server does next on a connection.
struct Act {
    std::vector<Message> send; ///< raw bytes, each in a segment of its own
    bool close = false;        ///< with a FIN
    bool reset = false;        ///< with a RST
};

/// Serves the connections to kServer; `decide` is asked for each whole query.
class TcpServer {
public:
    /// `connection` counts from 1, `index` the queries on it from 0.
    using Decide = std::function<Act(int connection, int index, Bytes query)>;

    explicit TcpServer(Decide decide);
    ~TcpServer();
    TcpServer(const TcpServer&) = delete;
    TcpServer& operator=(const TcpServer&) = delete;

    /// Who connected, in order.
    [[nodiscard]] std::vector<Endpoint> peers() const;

private:
    struct Client {
        FileDescriptor fd;
        int number = 0;
        int queries = 0;
        Message pending;
    };

    void serve();
    void accept_one();
    /// False: the connection is over.
    bool serve_client(Client& client);
    bool carry_out(Client& client, const Act& act);

    FileDescriptor listener_;
    Decide decide_;
    std::vector<Client> clients_;
    int connections_ = 0;
    mutable std::mutex mutex_;
    std::vector<Endpoint> peers_; ///< under mutex_
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

/// The message behind its two-byte length.
Message framed(const Message& message);

} // namespace reprise::querier::testing
