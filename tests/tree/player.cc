#include "tests/tree/player.hh"

#include "controller/controller.hh"
#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/tree/distributor.hh"
#include "core/wire/frame.hh"
#include "core/wire/settings.hh"
#include "querier/process.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/simulation/network.hh"
#include "querier/testing/simulation/scenario.hh"
#include "querier/testing/simulation/server.hh"
#include "querier/testing/simulation/timeline.hh"
#include "querier/testing/simulation/words.hh"
#include "querier/testing/tls_server.hh"
#include "tests/tree/hosts.hh"
#include "tests/tree/roads.hh"
#include "tests/tree/stage.hh"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::tests {
namespace {

using namespace querier::testing; // NOLINT(google-build-using-namespace): the same vocabulary

constexpr Nanoseconds kAfterward = 20 * kSecond; ///< for the others to end
constexpr std::uint64_t kMostQueries = 16'000;   ///< that the reader takes without being asked

/// The log's lines go to the transcript, with the name of who says them.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
public:
    explicit LogSink(Stage& stage) : stage_(stage) {}

protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        stage_.timeline().note("{}: {}", stage_.running(),
                               std::string_view(message.payload.data(), message.payload.size()));
    }

    void flush_() override {}

private:
    Stage& stage_;
};

/// For the time of a scenario.
class LogToTranscript {
public:
    explicit LogToTranscript(Stage& stage) {
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("", std::make_shared<LogSink>(stage)));
    }

    ~LogToTranscript() { spdlog::set_default_logger(before_); }

    LogToTranscript(const LogToTranscript&) = delete;
    LogToTranscript& operator=(const LogToTranscript&) = delete;

private:
    std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

struct Client {
    Machine machine;
    tree::DistributorOptions options;
    Nanoseconds starts = 0;
};

class Player {
public:
    Player() {
        options_.run = "scenario";
        options_.results = folder_.path();
        options_.trace = folder_.path() + "/trace.tsv";
        options_.servers = {"192.0.2.53"};
        set(options_.replay, "replay.source_mode", "addresses");
        set(options_.replay, "replay.early_us", "0");
        timeline_.begin(0);
        world_.start_querier = [this](const Machine& machine, const auto& arguments, auto end) {
            return std::ref(start_querier(machine, arguments, std::move(end)));
        };
    }

    ~Player() { stage_.end(); }

    Player(const Player&) = delete;
    Player& operator=(const Player&) = delete;

    Verbs verbs() {
        return {
            {"option",
             [this](Words& words) {
                 const std::string key = take_key(words);
                 set(options_.replay, key, take(words));
             }},
            {"client", [this](Words& words) { add_client(words); }},
            {"road",
             [this](Words& words) {
                 const std::string time = take_after(words, "rtt", "");
                 road(words).set_round_trip(duration(time));
             }},
            {"server", [this](Words& words) { rules_.add(rule_of(words)); }},
            {"queries", [this](Words& words) { add_queries(words); }},
            {"show", [this](Words& words) { shown_.insert(take(words)); }},
            {"at",
             [this](Words& words) {
                 const Nanoseconds time = duration(take(words));
                 timeline_.in(time, [this, what = std::exchange(words, {})] { happen(what); });
             }},
        };
    }

    std::vector<std::string> run() {
        write_trace();
        const LogToTranscript log(stage_);
        for (const auto& entry : clients_) {
            const Client& client = entry.second;
            timeline_.in(client.starts, [this, &client] { start_distributor(client); });
        }
        timeline_.in(kSecond, [this] { stage_.start("controller", [this] { control(); }); });
        stage_.start("beginning",
                     [this] { timeline_.run(kStart + 2 * kSecond, [] { return false; }); });
        ::testing::internal::CaptureStdout();
        try {
            stage_.play([this] { return timeline_.now() > over_; });
        } catch (...) {
            ::testing::internal::GetCapturedStdout();
            throw;
        }
        std::istringstream output(::testing::internal::GetCapturedStdout());
        for (std::string line; shown_.contains("progress") && std::getline(output, line);) {
            timeline_.say(line);
        }
        for (const auto& one : stage_.actors()) {
            if (!one->ended() && clients_.contains(one->name())) {
                timeline_.say(one->name() + " still runs");
            }
        }
        tell_ends();
        return transcript();
    }

private:
    /// NAME [queriers N] [feeds NAME,NAME] [clock TIME] [version N] [credit N] [credit-bytes N]
    /// [run NAME] [starts TIME]
    void add_client(Words& words) {
        Client client;
        client.machine.name = take(words);
        client.machine.offset = duration(take_after(words, "clock", "0s"));
        client.machine.version = static_cast<std::uint32_t>(
            number(take_after(words, "version", std::to_string(kProtocolVersion))));
        client.machine.credit.records = number(take_after(words, "credit", "0"));
        client.machine.credit.bytes = number(take_after(words, "credit-bytes", "0"));
        client.options.name = client.machine.name;
        client.options.run = take_after(words, "run", options_.run);
        client.options.results = folder_.path();
        const std::string fed = take_after(words, "feeds", "");
        client.starts = duration(take_after(words, "starts", fed.empty() ? "0s" : "500ms"));
        client.options.queriers =
            static_cast<unsigned>(number(take_after(words, "queriers", fed.empty() ? "1" : "0")));
        const std::string where = fmt::format("10.0.0.{}:4480", clients_.size() + 1);
        client.options.listen = parsed(Endpoint::parse(where), where);
        std::istringstream names(fed);
        for (std::string name; std::getline(names, name, ',');) {
            client.options.feeds.push_back(
                {.name = name, .endpoint = clients_.at(name).options.listen});
            fed_.insert(name);
        }
        world_.machines[where] = client.machine;
        clients_.emplace(client.machine.name, client);
    }

    Road& road(Words& words) {
        const std::string one = take(words);
        return world_.roads.between(one, take(words));
    }

    /// N every TIME [from SOURCES] [begin TIME] [TRANSPORT] [size N] [closed]
    void add_queries(Words& words) {
        const std::uint64_t count = number(take(words));
        const Nanoseconds gap = duration(take_after(words, "every", "1ms"));
        const std::uint64_t sources = number(take_after(words, "from", "10"));
        const Nanoseconds begin = duration(take_after(words, "begin", "0s"));
        const std::uint64_t size = number(take_after(words, "size", "0"));
        const Transport by = !words.empty() && is_transport(words.front()) ? transport(take(words))
                                                                           : Transport::kUdp;
        const bool closed = !words.empty() && words.front() == "closed";
        if (closed) {
            take(words);
        }
        if (queries_.size() + count > kMostQueries) {
            throw Error("too many queries");
        }
        for (std::uint64_t i = 0; i < count + (closed ? sources : 0); ++i) {
            const Nanoseconds due = begin + static_cast<Nanoseconds>(i) * gap;
            Query query = make_query(0, due, {}, static_cast<std::uint32_t>(i % sources + 1), by);
            query.connection = by == Transport::kUdp ? 0 : i % sources + 1;
            query.destination.address = parsed(IpAddress::parse("192.0.2.53"), "");
            if (i < count) {
                auto& message = messages_.emplace_back(
                    make_message(static_cast<std::uint16_t>(i), "a.example."));
                message.resize(std::max<size_t>(size, message.size()));
                query.message = message;
            }
            queries_.insert(std::ranges::upper_bound(queries_, due, {}, &Query::due), query);
        }
    }

    void write_trace() const {
        std::string text;
        trace::append_text_header(text);
        for (const Query& query : queries_) {
            trace::append_text_row(text, query);
        }
        std::ofstream(options_.trace) << text;
    }

    void start_distributor(const Client& client) {
        stage_.start(client.machine.name, [this, client] {
            SimulatedHost host(world_, client.machine);
            hosts_[client.machine.name] = &host;
            const int status = tree::Distributor(client.options, host).run();
            hosts_.erase(client.machine.name);
            timeline_.note("{} ends with status {}", client.machine.name, status);
        });
    }

    Actor& start_querier(const Machine& machine, const std::vector<std::string>& arguments,
                         std::shared_ptr<End> end) {
        Words words(arguments.begin(), arguments.end());
        querier::QueryOptions options;
        options.name = take_after(words, "--name", "");
        options.run = take_after(words, "--run-id", "");
        options.results = take_after(words, "--results", "");
        options.index = static_cast<unsigned>(number(take_after(words, "--index", "")));
        const std::string name = fmt::format("{}/{}", options.name, options.index);
        return stage_.start(name, [this, machine, options, name, end = std::move(end)] {
            SimulatedNetwork network(timeline_, rules_, tls_, machine.offset);
            SimulatedControl control(timeline_, machine, end);
            network.watch_parent([&control] { return control.readable(); });
            controls_[name] = &control;
            networks_.push_back(&network);
            querier::run_querier(options, control, network);
            std::erase(networks_, &network);
            controls_.erase(name);
        });
    }

    void control() {
        for (const auto& [name, client] : clients_) {
            if (!fed_.contains(name)) {
                options_.distributors.push_back(name + "=" + client.options.listen.text());
            }
        }
        Machine machine;
        machine.name = "controller";
        SimulatedHost host(world_, machine);
        hosts_["controller"] = &host;
        const Servers servers = controller::parse_servers(options_.servers, 53);
        controller::ReadAhead feed(std::make_unique<controller::TraceFeed>(options_, servers));
        while (!feed.state().ended) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1)); // its thread reads for real
        }
        const int status = controller::Controller(
                               options_, host, controller::querier_setup(options_, servers), feed)
                               .run();
        hosts_.erase("controller");
        over_ = timeline_.now() + kAfterward;
        timeline_.note("controller ends with status {}", status);
    }

    [[nodiscard]] Actor& actor(const std::string& name) {
        for (const auto& one : stage_.actors()) {
            if (one->name() == name) {
                return *one;
            }
        }
        throw Error(fmt::format("there is no {}", name));
    }

    void happen(Words words) {
        std::string what;
        for (const std::string& word : words) {
            what += " " + word;
        }
        timeline_.note("--{}", what);
        const std::string who = take(words);
        if (who == "road") {
            Road& one = road(words);
            take(words) == "cut" ? one.cut() : one.restore();
        } else if (who == "server") {
            const bool stops = take(words) == "stops";
            for (SimulatedNetwork* network : networks_) {
                stops ? network->stop_server() : network->start_server();
            }
        } else {
            happen_to(who, words);
        }
    }

    void happen_to(const std::string& who, Words& words) {
        const std::string what = take(words);
        if (what == "killed") {
            actor(who).kill();
        } else if (what == "stands-still") {
            actor(who).hold_until(timeline_.now() + duration(take(words)));
        } else if (what == "reads-slowly") {
            controls_.at(who)->read_slowly(duration(take(words)));
        } else if (what == "interrupted" || what == "terminated") {
            hosts_.at(who)->tell_to_stop(what);
        } else {
            throw Error(fmt::format("{} cannot be {}", who, what));
        }
    }

    void tell_ends() {
        std::ifstream file(options_.results + "/controller.json");
        const auto told = nlohmann::json::parse(file, nullptr, false);
        if (told.is_object()) {
            tell_controller(told);
        }
        std::map<std::string, std::string> seen;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
            if (entry.path().extension() == ".rq") {
                const RqContent content = read_rq(entry.path());
                seen[entry.path().stem()] = fmt::format("{} records, {}", content.records.size(),
                                                        content.whole ? "whole" : "not whole");
            }
        }
        for (const auto& [name, text] : seen) {
            timeline_.say(fmt::format("{}: {}", name, text));
        }
    }

    void tell_controller(const nlohmann::json& told) {
        timeline_.say(told["clean"] ? "clean" : "not clean:");
        for (const auto& because : told["because"]) {
            timeline_.say("  " + because.get<std::string>());
        }
        for (const auto& child : told["children"]) {
            timeline_.say(fmt::format(
                "{}: queriers {} assigned {} lost {}{}", child["name"].get<std::string>(),
                child["queriers"].dump(), child["assigned"].dump(), child["lost"].dump(),
                child["same_clock"]
                    ? " same clock"
                    : fmt::format(" offset {} s", child["offset_ns"].get<double>() / 1e9)));
            for (const auto& report : child["reports"]) {
                timeline_.say(fmt::format("  {}/{}: assigned {}{}",
                                          report["host"].get<std::string>(),
                                          report["querier"].dump(), report["assigned"].dump(),
                                          report["lost"] ? " lost" : ""));
            }
        }
        std::string counts = "queries:";
        for (const auto& [name, value] : told["queries"].items()) {
            counts += value == 0 ? "" : fmt::format(" {} {}", name, value.dump());
        }
        timeline_.say(counts);
    }

    /// Without packets, of which there are many, unless they are asked for.
    [[nodiscard]] std::vector<std::string> transcript() const {
        constexpr std::array kPackets{" udp ", " tcp ", " tls ", " icmp ", " lost: "};
        std::vector<std::string> lines = timeline_.transcript();
        if (!shown_.contains("packets")) {
            std::erase_if(lines, [&](const std::string& line) {
                return std::ranges::any_of(
                    kPackets, [&](const char* word) { return line.find(word) == line.find(' '); });
            });
        }
        return lines;
    }

    ScratchFolder folder_;
    Timeline timeline_;
    Rules rules_;
    MemoryTlsServer tls_{ServerOptions{}};
    controller::Options options_;
    std::map<std::string, Client> clients_;
    std::set<std::string> fed_;
    std::set<std::string> shown_;
    std::deque<std::vector<std::uint8_t>> messages_;
    std::vector<Query> queries_;
    std::map<std::string, SimulatedHost*> hosts_;
    std::map<std::string, SimulatedControl*> controls_;
    std::vector<SimulatedNetwork*> networks_;
    Nanoseconds over_ = kNever;
    Stage stage_{timeline_};
    World world_{stage_};
};

} // namespace

std::vector<std::string> play_tree(const Scenario& scenario) {
    Player player;
    carry_out(scenario, player.verbs());
    return player.run();
}

} // namespace reprise::tests
