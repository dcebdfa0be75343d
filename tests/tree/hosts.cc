#include "tests/tree/hosts.hh"

#include "core/base/error.hh"
#include "core/tree/host.hh"
#include "core/wire/frame.hh"
#include "querier/process.hh"
#include "tests/tree/roads.hh"
#include "tests/tree/stage.hh"

#include <fmt/format.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::tests {
namespace {

class SimulatedLink final : public tree::Link {
public:
    SimulatedLink(const Machine& machine, const Clock& clock, std::shared_ptr<Mailbox> mailbox,
                  std::shared_ptr<End> end)
        : machine_(machine), clock_(clock), mailbox_(std::move(mailbox)), end_(std::move(end)),
          last_heard_(clock.now()) {
        end_->set_handler({
            .bytes = [this](const std::string& bytes) { post([this, bytes] { receive(bytes); }); },
            .gone = [this](const std::string& because) { post([this, because] { go(because); }); },
        });
    }

    ~SimulatedLink() override {
        *alive_ = false;
        end_->close();
    }

    SimulatedLink(const SimulatedLink&) = delete;
    SimulatedLink& operator=(const SimulatedLink&) = delete;

    void set_handler(Handler handler) override { handler_ = std::move(handler); }

    void send(const Outgoing& frame) override {
        std::string bytes = frame.bytes;
        if (machine_.version != kProtocolVersion) {
            bytes = of_version(bytes);
        }
        end_->send(std::move(bytes));
    }

    void close() override {
        closed_ = true;
        end_->close();
    }

    [[nodiscard]] bool open() const override { return !closed_; }

    [[nodiscard]] size_t unsent() const override { return end_->unsent(); }

    [[nodiscard]] Nanoseconds last_heard() const override { return last_heard_; }

private:
    void post(std::function<void()> call) {
        mailbox_->calls.emplace_back([alive = alive_, call = std::move(call)] {
            if (*alive) {
                call();
            }
        });
    }

    void receive(const std::string& bytes) {
        if (closed_) {
            return;
        }
        last_heard_ = clock_.now();
        reader_.feed(bytes_of(bytes));
        wire::Frame frame;
        while (!closed_ && reader_.next(frame) == FrameReader::Result::kFrame) {
            if (frame.has_block() && handler_.block) {
                handler_.block(bytes_of(frame.block().records()));
            } else {
                handler_.frame(frame);
            }
        }
    }

    void go(const std::string& because) {
        if (!std::exchange(closed_, true) && handler_.down) {
            handler_.down(because);
        }
    }

    /// A Hello of another release.
    [[nodiscard]] std::string of_version(const std::string& bytes) const {
        wire::Frame frame;
        FrameReader reader;
        reader.feed(bytes_of(bytes));
        reader.next(frame);
        if (!frame.has_hello()) {
            return bytes;
        }
        frame.mutable_hello()->set_protocol(machine_.version);
        return encode_frame(frame);
    }

    const Machine& machine_;
    const Clock& clock_;
    std::shared_ptr<Mailbox> mailbox_;
    std::shared_ptr<End> end_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    Handler handler_;
    FrameReader reader_;
    Nanoseconds last_heard_;
    bool closed_ = false;
};

class SimulatedTimer final : public tree::Timer {
public:
    SimulatedTimer(Timeline& timeline, std::shared_ptr<Mailbox> mailbox, Nanoseconds period,
                   std::function<void()> action)
        : timeline_(timeline), mailbox_(std::move(mailbox)), period_(period),
          action_(std::move(action)) {
        if (period_ > 0) {
            again_in(period_);
        }
    }

    ~SimulatedTimer() override { ++*turn_; }

    SimulatedTimer(const SimulatedTimer&) = delete;
    SimulatedTimer& operator=(const SimulatedTimer&) = delete;

    void again_in(Nanoseconds delay) override {
        timeline_.in(delay, [this, turn = ++*turn_, now = turn_, mailbox = mailbox_] {
            if (turn == *now) {
                mailbox->calls.emplace_back([this, turn, now] {
                    if (turn == *now) {
                        ring();
                    }
                });
            }
        });
    }

private:
    void ring() {
        if (period_ > 0) {
            again_in(period_);
        }
        action_();
    }

    Timeline& timeline_;
    std::shared_ptr<Mailbox> mailbox_;
    Nanoseconds period_;
    std::function<void()> action_;
    std::shared_ptr<std::uint64_t> turn_ = std::make_shared<std::uint64_t>(0);
};

class SimulatedListener final : public tree::Listener {
public:
    SimulatedListener(World& world, const Endpoint& where) : world_(world), where_(where) {}

    ~SimulatedListener() override { world_.listeners.erase(where_.text()); }

    SimulatedListener(const SimulatedListener&) = delete;
    SimulatedListener& operator=(const SimulatedListener&) = delete;

private:
    World& world_;
    Endpoint where_;
};

} // namespace

void SimulatedHost::sleep(Nanoseconds until, const std::function<bool()>& enough) {
    world_.stage.timeline().run(until, enough);
}

void SimulatedHost::tell_to_stop(const std::string& because) {
    mailbox_->calls.emplace_back([this, because] { stop_action_(because); });
}

wire::Hello SimulatedHost::facts() const {
    wire::Hello hello;
    hello.set_boot_id(machine_.name);
    return hello;
}

std::unique_ptr<tree::Timer> SimulatedHost::timer(Nanoseconds period,
                                                  std::function<void()> action) {
    return std::make_unique<SimulatedTimer>(world_.stage.timeline(), mailbox_, period,
                                            std::move(action));
}

std::unique_ptr<tree::Link> SimulatedHost::link(std::shared_ptr<End> end) {
    return std::make_unique<SimulatedLink>(machine_, clock_, mailbox_, std::move(end));
}

std::unique_ptr<tree::Link> SimulatedHost::connect(const Endpoint& peer) {
    const auto machine = world_.machines.find(peer.text());
    if (machine == world_.machines.end()) {
        throw Error("no host of the scenario has the address " + peer.text());
    }
    Road& road = world_.roads.between(machine_.name, machine->second.name);
    const auto ends = End::pair(road);
    road.carry([world = &world_, &road, ends, where = peer.text()] {
        const auto listener = world->listeners.find(where);
        if (listener != world->listeners.end()) {
            listener->second(ends.second);
        } else {
            road.carry([ends] {
                ends.first->end("Connection refused");
                ends.second->close();
            });
        }
    });
    return link(ends.first);
}

std::unique_ptr<tree::Listener> SimulatedHost::listen(const Endpoint& where,
                                                      tree::Listener::Handler handler) {
    world_.listeners[where.text()] = [this, handler](std::shared_ptr<End> end) {
        mailbox_->calls.emplace_back(
            [this, handler, end = std::move(end)] { handler.accepted(link(end)); });
    };
    return std::make_unique<SimulatedListener>(world_, where);
}

tree::Host::Child SimulatedHost::start(std::vector<std::string> arguments) {
    const auto [here, there] = End::pair(world_.roads.between(machine_.name, machine_.name));
    children_.push_back(&world_.start_querier(machine_, arguments, there));
    return {.pid = static_cast<pid_t>(children_.size()), .link = link(here)};
}

/// Any of them ends it: queriers that are told to end before the start have nothing to finish.
void SimulatedHost::signal(pid_t child, int /*number*/) {
    children_.at(static_cast<size_t>(child) - 1)->kill();
}

std::string SimulatedHost::reap(pid_t child, Nanoseconds until) {
    Actor& actor = *children_.at(static_cast<size_t>(child) - 1);
    sleep(clock_.back(until), [&] { return actor.ended(); });
    if (!actor.ended()) {
        actor.kill();
        sleep(kNever, [&] { return actor.ended(); });
        return "querier process did not end and was killed";
    }
    return actor.killed() ? fmt::format("querier process killed by signal {}", SIGKILL) : "";
}

void SimulatedHost::on_stop(std::function<void(const std::string&)> action) {
    stop_action_ = std::move(action);
}

void SimulatedHost::run() {
    while (!stopped_) {
        sleep(kNever, [this] { return !mailbox_->calls.empty(); });
        const std::function<void()> call = std::move(mailbox_->calls.front());
        mailbox_->calls.pop_front();
        call();
    }
}

SimulatedControl::SimulatedControl(Timeline& timeline, Machine machine, std::shared_ptr<End> end)
    : timeline_(timeline), machine_(std::move(machine)), end_(std::move(end)) {
    end_->set_handler(
        {.bytes = [this](std::string bytes) { inbox_.push_back(std::move(bytes)); }, .gone = {}});
}

bool SimulatedControl::readable() const {
    return timeline_.now() >= next_read_ && (!inbox_.empty() || !end_->open());
}

/// The host's name stands for its boot id.
void SimulatedControl::send(const wire::Frame& frame) {
    if (!frame.has_hello()) {
        end_->send(encode_frame(frame));
        return;
    }
    wire::Frame hello = frame;
    hello.mutable_hello()->set_boot_id(machine_.name);
    hello.mutable_hello()->clear_time_namespace();
    if (machine_.credit.records > 0) {
        hello.mutable_hello()->set_credit(machine_.credit.records);
    }
    if (machine_.credit.bytes > 0) {
        hello.mutable_hello()->set_credit_bytes(machine_.credit.bytes);
    }
    end_->send(encode_frame(hello));
}

std::optional<Bytes> SimulatedControl::receive() {
    if (!readable()) {
        return Bytes{};
    }
    if (inbox_.empty()) {
        return std::nullopt;
    }
    read_.clear();
    do {
        read_ += inbox_.front();
        inbox_.pop_front();
    } while (pause_ == 0 && !inbox_.empty());
    if (pause_ > 0) {
        next_read_ = timeline_.now() + pause_;
        timeline_.in(pause_, [] {}); // it looks again then
    }
    return bytes_of(read_);
}

} // namespace reprise::tests
