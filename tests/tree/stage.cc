#include "tests/tree/stage.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace reprise::tests {
namespace {

constexpr Nanoseconds kLongest = Nanoseconds{3600} * kSecond;

} // namespace

Stage::Stage(Timeline& timeline) : timeline_(timeline) {
    timeline_.give_to(
        [this](Nanoseconds limit, const std::function<bool()>& enough) { wait(limit, enough); });
}

void Stage::end() {
    for (const auto& actor : actors_) {
        actor->kill();
        while (!actor->ended_) {
            resume(*actor);
        }
        actor->thread_.join();
    }
    actors_.clear();
}

Actor& Stage::start(std::string name, std::function<void()> body) {
    Actor& actor = *actors_.emplace_back(std::make_unique<Actor>());
    actor.name_ = std::move(name);
    actor.body_ = std::move(body);
    actor.limit_ = timeline_.now();
    actor.thread_ = std::thread([&actor] {
        actor.go_.acquire();
        try {
            if (!actor.killed_) {
                actor.body_();
            }
        } catch (const Actor::Killed&) {
        } catch (...) {
            actor.error_ = std::current_exception();
        }
        actor.ended_ = true;
        actor.waits_.release();
    });
    return actor;
}

void Stage::wait(Nanoseconds limit, const std::function<bool()>& enough) {
    Actor& actor = *running_;
    actor.limit_ = limit;
    actor.enough_ = enough;
    actor.waits_.release();
    actor.go_.acquire();
    if (actor.killed_) {
        throw Actor::Killed{};
    }
}

void Stage::resume(Actor& actor) {
    running_ = &actor;
    actor.go_.release();
    actor.waits_.acquire();
    running_ = nullptr;
}

bool Stage::wakes(const Actor& actor) const {
    const Nanoseconds now = timeline_.now();
    return !actor.ended_ && (actor.killed_ || (now >= actor.held_until_ &&
                                               (now >= actor.limit_ || actor.enough_())));
}

/// Of those that only wait for a time.
Nanoseconds Stage::next_wake() const {
    Nanoseconds next = kNever;
    for (const auto& actor : actors_) {
        if (!actor->ended_) {
            const Nanoseconds wake = actor->enough_() ? timeline_.now() : actor->limit_;
            next = std::min(next, std::max(wake, actor->held_until_));
        }
    }
    return next;
}

void Stage::play(const std::function<bool()>& enough) {
    const Nanoseconds latest = timeline_.now() + kLongest;
    const auto ended = [](const auto& actor) { return actor->ended_; };
    while (!std::ranges::all_of(actors_, ended) && !enough()) {
        const auto next =
            std::ranges::find_if(actors_, [this](const auto& actor) { return wakes(*actor); });
        if (next != actors_.end()) {
            Actor& actor = **next; // others may be added while it runs
            resume(actor);
            if (actor.error_) {
                std::rethrow_exception(actor.error_);
            }
        } else {
            timeline_.step(std::min(next_wake(), latest));
        }
        if (timeline_.now() >= latest) {
            throw Error("the scenario does not come to an end");
        }
    }
}

} // namespace reprise::tests
