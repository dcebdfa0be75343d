#pragma once
// The hosts of a scenario: what controller, distributors and queriers see of them.

#include "core/tree/host.hh"
#include "core/wire/frame.hh"
#include "querier/process.hh"
#include "querier/testing/simulation/timeline.hh"
#include "tests/tree/roads.hh"
#include "tests/tree/stage.hh"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::tests {

using querier::testing::HostClock;

/// A host as the scenario describes it.
struct Machine {
    std::string name;
    Nanoseconds offset = 0; ///< of its clock
    std::uint32_t version = kProtocolVersion;
    Credit credit; ///< that its queriers grant; 0 = their own
};

/// What hosts share.
struct World {
    explicit World(Stage& shared) : stage(shared) {}

    Stage& stage;
    Roads roads{stage.timeline()};
    std::map<std::string, Machine> machines; ///< by endpoint
    /// Who waits for a parent at an endpoint.
    std::map<std::string, std::function<void(std::shared_ptr<End>)>> listeners;
    /// Starts a querier of a distributor with its arguments.
    std::function<Actor&(const Machine&, const std::vector<std::string>&, std::shared_ptr<End>)>
        start_querier;
};

/// Calls for a program, which takes them when it is not held.
struct Mailbox {
    std::deque<std::function<void()>> calls;
};

/// Of a controller or distributor, inside its actor.
class SimulatedHost final : public tree::Host {
public:
    SimulatedHost(World& world, Machine machine)
        : world_(world), machine_(std::move(machine)),
          clock_(world.stage.timeline(), machine_.offset) {}

    /// SIGTERM or SIGINT: "terminated", "interrupted".
    void tell_to_stop(const std::string& because);

    [[nodiscard]] const Clock& clock() const override { return clock_; }

    [[nodiscard]] wire::Hello facts() const override;
    std::unique_ptr<tree::Timer> timer(Nanoseconds period, std::function<void()> action) override;
    std::unique_ptr<tree::Link> connect(const Endpoint& peer) override;
    std::unique_ptr<tree::Listener> listen(const Endpoint& where,
                                           tree::Listener::Handler handler) override;
    Child start(std::vector<std::string> arguments) override;
    void signal(pid_t child, int number) override;
    std::string reap(pid_t child, Nanoseconds until) override;
    void on_stop(std::function<void(const std::string&)> action) override;
    void run() override;

    void stop() override { stopped_ = true; }

private:
    void sleep(Nanoseconds until, const std::function<bool()>& enough);
    std::unique_ptr<tree::Link> link(std::shared_ptr<End> end);

    World& world_;
    Machine machine_;
    HostClock clock_;
    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
    std::function<void(const std::string&)> stop_action_;
    std::vector<Actor*> children_; ///< by pid, from 1
    bool stopped_ = false;
};

/// A querier's end of the link to its distributor.
class SimulatedControl final : public querier::ControlLink {
public:
    SimulatedControl(Timeline& timeline, Machine machine, std::shared_ptr<End> end);

    ~SimulatedControl() override { end_->close(); }

    SimulatedControl(const SimulatedControl&) = delete;
    SimulatedControl& operator=(const SimulatedControl&) = delete;

    /// From now on it reads what one block or message takes, and not again for so long.
    void read_slowly(Nanoseconds pause) { pause_ = pause; }

    [[nodiscard]] bool readable() const;

    void send(const wire::Frame& frame) override;

    void flush(int /*limit_ms*/) override {}

    std::optional<Bytes> receive() override;

private:
    Timeline& timeline_;
    Machine machine_;
    std::shared_ptr<End> end_;
    std::deque<std::string> inbox_;
    std::string read_; ///< by the last receive()
    Nanoseconds pause_ = 0;
    Nanoseconds next_read_ = 0;
};

} // namespace reprise::tests
