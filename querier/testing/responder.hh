#pragma once
// Servers with faults a real one cannot be told to have: a thread each, on loopback port 5300,
// ended with the object.

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/fd.hh"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reprise::querier::testing {

using Message = std::vector<std::uint8_t>;

/// Answers each UDP query with the messages `answer` makes of it.
class UdpResponder {
public:
    using Answer = std::function<std::vector<Message>(Bytes query)>;

    explicit UdpResponder(Answer answer);
    ~UdpResponder();
    UdpResponder(const UdpResponder&) = delete;
    UdpResponder& operator=(const UdpResponder&) = delete;

private:
    void serve();

    FileDescriptor socket_;
    Answer answer_;
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

/// What a TCP responder does next on a connection.
struct Act {
    std::vector<Message> send; ///< raw bytes, each in a segment of its own
    bool close = false;        ///< with a FIN
    bool reset = false;        ///< with a RST
};

/// Serves TCP connections one thread in all; `act` is asked for each whole query.
class TcpResponder {
public:
    /// `connection` counts from 1, `index` the queries on it from 0.
    using Decide = std::function<Act(int connection, int index, Bytes query)>;

    explicit TcpResponder(Decide decide);
    ~TcpResponder();
    TcpResponder(const TcpResponder&) = delete;
    TcpResponder& operator=(const TcpResponder&) = delete;

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
