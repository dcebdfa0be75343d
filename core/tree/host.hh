#pragma once
// What controller and distributor see of the host they run on: its clock, timers, their neighbors
// in the tree, querier processes, and wishes that they stop. kernel_host.hh has the real one;
// scenarios have their own, in which time passes as fast as the programs can follow.

#include "core/wire/frame.hh"

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace reprise::tree {

/// Frames to and from one neighbor. Never destroy a link inside its own handler.
class Link {
public:
    struct Handler {
        std::function<void(wire::Frame&)> frame; ///< in order
        std::function<void(const std::string&)>
            down; ///< once, with the reason; nothing comes after
        /// Blocks, where set (frame gets the rest); their bytes are good for the call only.
        std::function<void(Bytes records)> block = nullptr;
    };

    virtual ~Link() = default;

    virtual void set_handler(Handler handler) = 0;

    /// Queues a frame with its size in front. Ignored after down or close.
    virtual void send(const Outgoing& frame) = 0;

    void send(const wire::Frame& frame) { send(Outgoing{.bytes = encode_frame(frame)}); }

    /// Closes now; no further calls of the handler.
    virtual void close() = 0;

    [[nodiscard]] virtual bool open() const = 0;

    /// Bytes queued and not yet taken by the kernel.
    [[nodiscard]] virtual size_t unsent() const = 0;

    /// When anything last came from the neighbor; CLOCK_MONOTONIC.
    [[nodiscard]] virtual Nanoseconds last_heard() const = 0;
};

/// Calls its action until destroyed.
class Timer {
public:
    virtual ~Timer() = default;

    /// Calls once, after input that is ready; a second call replaces the first.
    virtual void again_in(Nanoseconds delay) = 0;
};

/// Waits for a neighbor until destroyed, which it may be inside its own call.
class Listener {
public:
    virtual ~Listener() = default;

    struct Handler {
        std::function<void(std::unique_ptr<Link>)> accepted; ///< both sides are verified
        /// Where from, and why it came to nothing.
        std::function<void(const std::string& peer, const std::string& because)> refused;
    };
};

class Host {
public:
    virtual ~Host() = default;

    /// What all on this host read.
    [[nodiscard]] virtual const Clock& clock() const = 0;

    /// The fields of Hello that describe a host: boot id, time namespace, kernel, processors.
    [[nodiscard]] virtual wire::Hello facts() const = 0;

    /// Calls every `period`; 0: only when armed by again_in().
    virtual std::unique_ptr<Timer> timer(Nanoseconds period, std::function<void()> action) = 0;

    /// Connects to `peer`; where that fails its handler hears of it.
    virtual std::unique_ptr<Link> connect(const Endpoint& peer) = 0;

    /// Throws SystemError naming the endpoint, e.g. where the port is in use.
    virtual std::unique_ptr<Listener> listen(const Endpoint& where, Listener::Handler handler) = 0;

    struct Child {
        pid_t pid = -1;
        std::unique_ptr<Link> link;
    };

    /// Starts this program with other arguments, the other end of the link as kControlFd. Throws
    /// SystemError.
    virtual Child start(std::vector<std::string> arguments) = 0;

    virtual void signal(pid_t child, int number) = 0;

    /// Waits for a child until `until` (CLOCK_MONOTONIC), then kills it. Returns "" for exit status
    /// 0 or 1, else how it ended ("killed by signal 9").
    virtual std::string reap(pid_t child, Nanoseconds until) = 0;

    /// Calls when the user or the system wants this program to stop: "interrupted", "terminated".
    virtual void on_stop(std::function<void(const std::string&)> action) = 0;

    /// Runs until stop().
    virtual void run() = 0;
    virtual void stop() = 0;
};

/// Of a querier, its link to the distributor.
inline constexpr int kControlFd = 3;

} // namespace reprise::tree
