#pragma once
// One neighbour in the tree: frames both ways over a socket pair (distributor and its queriers) or
// TCP with mutual TLS.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"
#include "core/tree/block_frame.hh"
#include "core/tree/event_loop.hh"
#include "core/tree/tls.hh"
#include "core/wire/frame.hh"

#include <functional>
#include <memory>
#include <string>

struct bufferevent;
struct evconnlistener;

namespace reprise::tree {

/// Frames to and from one neighbour. Must outlive its loop's callbacks: never destroy a link inside
/// its own handler.
class Link {
public:
    struct Handler {
        std::function<void()> up;                ///< connected and, with TLS, both sides verified
        std::function<void(wire::Frame&)> frame; ///< in order
        std::function<void(const std::string&)>
            down; ///< once, with the reason; nothing comes after
        /// Blocks, where set (frame gets the rest); the bytes are good for the call only.
        std::function<void(const BlockView&)> block = nullptr;
    };

    /// Connects to `peer`; up or down follows.
    static std::unique_ptr<Link> connect(const EventLoop& loop, const TlsContext& tls,
                                         const Endpoint& peer);
    /// Serves an accepted connection; up or down follows.
    static std::unique_ptr<Link> accept(const EventLoop& loop, const TlsContext& tls,
                                        FileDescriptor socket);
    /// One end of a socket pair; up at once (no call).
    static std::unique_ptr<Link> local(const EventLoop& loop, FileDescriptor socket);

    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link();

    void set_handler(Handler handler) { handler_ = std::move(handler); }

    /// Queues a frame. Ignored after down or close.
    void send(const wire::Frame& frame);

    /// Queues a block without copying a large one. Ignored after down or close.
    void send(Outgoing block);

    /// Closes now; no further calls of the handler.
    void close();

    [[nodiscard]] bool open() const { return buffer_ != nullptr; }

    /// Bytes queued and not yet taken by the kernel.
    [[nodiscard]] size_t unsent() const;

    /// When anything last came from the neighbour; CLOCK_MONOTONIC.
    [[nodiscard]] Nanoseconds last_heard() const { return last_heard_; }

private:
    struct BufferDeleter {
        void operator()(bufferevent* b) const;
    };

    Link(const Clock& clock, bufferevent* buffer);

    void enable();
    void read();
    std::string read_on();
    bool read_frame();
    void hand_over(Bytes bytes);
    void event(short what);
    void fail(const std::string& reason);

    static void on_read(bufferevent* b, void* self);
    static void on_event(bufferevent* b, short what, void* self);

    const Clock& clock_;
    std::unique_ptr<bufferevent, BufferDeleter> buffer_;
    wire::Frame frame_; ///< reused: protobuf keeps its memory
    Handler handler_;
    Nanoseconds last_heard_ = clock_.now();
};

/// Listens for neighbours.
class Listener {
public:
    using Accepted = std::function<void(FileDescriptor, const Endpoint& peer)>;

    /// Throws SystemError naming the endpoint, e.g. where the port is in use.
    Listener(const EventLoop& loop, const Endpoint& where, Accepted accepted);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    /// The bound endpoint: the port chosen by the kernel where 0 was asked.
    [[nodiscard]] Endpoint endpoint() const;

private:
    struct ListenerDeleter {
        void operator()(evconnlistener* l) const;
    };

    Accepted accepted_;
    std::unique_ptr<evconnlistener, ListenerDeleter> listener_;
};

} // namespace reprise::tree
