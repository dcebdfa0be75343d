#pragma once
// The processes of a scenario. Each is a thread that runs only while all others wait, so that what
// they do has one order, and time passes when all of them wait.

#include "core/base/clock.hh"
#include "querier/testing/simulation/timeline.hh"

#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace reprise::tests {

using querier::testing::Timeline;

inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

class Actor {
public:
    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] bool ended() const { return ended_; }

    /// SIGKILL: it ends where it waits.
    void kill() { killed_ = true; }

    [[nodiscard]] bool killed() const { return killed_; }

    /// SIGSTOP, and SIGCONT at that time.
    void hold_until(Nanoseconds time) { held_until_ = time; }

private:
    friend class Stage;

    /// Thrown where a process that was killed waits; nobody else catches it.
    struct Killed {};

    std::string name_;
    std::function<void()> body_;
    std::thread thread_;
    std::binary_semaphore go_{0};
    std::binary_semaphore waits_{0};
    Nanoseconds limit_ = 0;
    std::function<bool()> enough_ = [] { return true; };
    Nanoseconds held_until_ = 0;
    bool killed_ = false;
    bool ended_ = false;
    std::exception_ptr error_;
};

class Stage {
public:
    explicit Stage(Timeline& timeline);

    ~Stage() { end(); }

    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    /// Starts a process; it begins when those that run now wait.
    Actor& start(std::string name, std::function<void()> body);

    /// Plays until all have ended, or `enough`. Throws what one of them throws, and Error where an
    /// hour passes.
    void play(const std::function<bool()>& enough);

    /// Kills those that still run.
    void end();

    [[nodiscard]] Timeline& timeline() { return timeline_; }

    /// The one that runs; empty between them.
    [[nodiscard]] std::string running() const { return running_ ? running_->name() : ""; }

    /// All that were started.
    [[nodiscard]] const std::vector<std::unique_ptr<Actor>>& actors() const { return actors_; }

private:
    void wait(Nanoseconds limit, const std::function<bool()>& enough);
    [[nodiscard]] bool wakes(const Actor& actor) const;
    [[nodiscard]] Nanoseconds next_wake() const;
    void resume(Actor& actor);

    Timeline& timeline_;
    std::vector<std::unique_ptr<Actor>> actors_;
    Actor* running_ = nullptr;
};

} // namespace reprise::tests
