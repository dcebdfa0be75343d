#pragma once
// The network of the tree in a scenario: roads between hosts, and connections over them.

#include "core/base/clock.hh"
#include "querier/testing/simulation/timeline.hh"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::tests {

using querier::testing::Timeline;

/// Between two hosts: what is sent first arrives first.
class Road {
public:
    explicit Road(Timeline& timeline) : timeline_(timeline) {}

    void set_round_trip(Nanoseconds time) { one_way_ = time / 2; }

    void cut() { cut_ = true; }

    /// What was sent meanwhile arrives.
    void restore();

    void carry(std::function<void()> arrive);

private:
    Timeline& timeline_;
    Nanoseconds one_way_ = 100 * kMicrosecond;
    bool cut_ = false;
    std::vector<std::function<void()>> held_;
};

/// One end of a connection.
class End {
public:
    /// What its owner wants to know; nothing is told any more once it is closed.
    struct Handler {
        std::function<void(std::string bytes)> bytes;
        std::function<void(const std::string& because)> gone;
    };

    /// Two ends.
    static std::pair<std::shared_ptr<End>, std::shared_ptr<End>> pair(Road& road);

    explicit End(Road& road) : road_(road) {}

    void set_handler(Handler handler) { handler_ = std::move(handler); }

    void send(std::string bytes);
    void close();

    /// The other end's doing, or the network's.
    void end(const std::string& because);

    [[nodiscard]] bool open() const { return open_; }

    [[nodiscard]] size_t unsent() const { return unsent_; }

private:
    Road& road_;
    std::weak_ptr<End> self_;
    std::shared_ptr<End> other_;
    Handler handler_;
    bool open_ = true;
    size_t unsent_ = 0;
};

/// By the names of two hosts, in any order.
class Roads {
public:
    explicit Roads(Timeline& timeline) : timeline_(timeline) {}

    Road& between(std::string a, std::string b);

private:
    Timeline& timeline_;
    std::map<std::pair<std::string, std::string>, Road> roads_;
};

} // namespace reprise::tests
