#include "querier/testing/simulation/scenario.hh"

#include "core/base/error.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/process.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/simulation/network.hh"
#include "querier/testing/simulation/parent.hh"
#include "querier/testing/simulation/server.hh"
#include "querier/testing/simulation/timeline.hh"
#include "querier/testing/simulation/words.hh"
#include "querier/testing/tls_server.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr std::uint16_t kTypeA = 1;

class Player {
public:
    Player() : network_(timeline_, rules_, tls_), parent_(timeline_) {
        options_.set_server_v4("192.0.2.53:53");
        options_.set_server_v6("[2001:db8::53]:53");
        set("replay.source_mode", "addresses");
        set("replay.early_us", "0");
        set("tls.verify", "false");
        query_.name = "here";
        query_.run = "scenario";
        query_.results = folder_.path();
    }

    Verbs verbs() {
        return {
            {"option",
             [this](Words& words) {
                 const std::string key = take_key(words);
                 set(key, take(words));
             }},
            {"rtt", [this](Words& words) { network_.set_round_trip(duration(take(words))); }},
            {"descriptors", [this](Words& words) { query_.descriptors = number(take(words)); }},
            {"prefix",
             [this](Words& words) {
                 const std::string prefix = take(words);
                 query_.prefixes.push_back(parsed(Prefix::parse_network(prefix), prefix));
             }},
            {"lead", [this](Words& words) { timeline_.begin(duration(take(words))); }},
            {"ahead", [this](Words& words) { ahead_ = duration(take(words)); }},
            {"show-credit", [this](Words&) { parent_.show_credit(); }},
            {"server", [this](Words& words) { rules_.add(rule_of(words)); }},
            {"query", [this](Words& words) { add_query(words, false); }},
            {"close", [this](Words& words) { add_query(words, true); }},
            {"at",
             [this](Words& words) {
                 const Nanoseconds time = kStart + duration(take(words));
                 timeline_.in(time - timeline_.now(),
                              [this, what = std::exchange(words, {})] { happen(what); });
             }},
        };
    }

    std::vector<std::string> run() {
        for (size_t i = 0; i < queries_.size(); ++i) {
            queries_[i].sequence = i;
        }
        network_.watch_parent([this] { return parent_.readable(); });
        parent_.play(options_, queries_, ahead_);
        run_querier(query_, parent_, network_);
        tell_ends();
        return timeline_.transcript();
    }

private:
    void set(const std::string& key, const std::string& value) {
        (*options_.mutable_settings())[key] = value;
    }

    /// TIME SOURCE [TRANSPORT] NAME [id N] [connection N] [idle N] [size N] [copies N]
    void add_query(Words& words, bool close) {
        const Nanoseconds due = duration(take(words));
        const std::string source = take(words);
        const std::uint64_t copies = number(take_after(words, "copies", "1"));
        const auto id = static_cast<std::uint16_t>(
            number(take_after(words, "id", std::to_string(queries_.size() + 1))));
        Query query = make_query(0, due, {});
        query.connection = number(take_after(words, "connection", "0"));
        query.idle_class = static_cast<std::uint16_t>(number(take_after(words, "idle", "0")));
        query.source.address = parsed(IpAddress::parse(source), source);
        query.source_id = sources_.emplace(source, sources_.size()).first->second;
        const std::uint64_t size = number(take_after(words, "size", "0"));
        if (!words.empty() && is_transport(words.front())) {
            query.transport = transport(take(words));
        }
        if (!close) {
            const std::string name = take(words);
            auto& message = messages_.emplace_back(make_message(id, name, kTypeA));
            message.resize(std::max<size_t>(size, message.size()));
            query.message = message;
            query.destination.address.family = query.source.address.family;
        }
        queries_.insert(std::ranges::upper_bound(queries_, due, {}, &Query::due), copies, query);
    }

    void happen(Words words) {
        const std::string who = take(words);
        const std::string what = take(words);
        timeline_.note("-- {} {}{}", who, what, words.empty() ? "" : " " + words.front());
        if (who == "server") {
            what == "stops" ? network_.stop_server() : network_.start_server();
        } else if (who == "link") {
            what == "cut" ? network_.cut_link() : network_.restore_link();
        } else if (who == "clock") {
            timeline_.step_realtime(duration(what));
        } else if (who == "querier") {
            const Nanoseconds stop = timeline_.now() + duration(take(words));
            timeline_.run(stop, [] { return false; });
        } else if (who == "sending") {
            network_.stall_next(duration(take(words)));
        } else if (who == "connection") {
            network_.end_flow(static_cast<unsigned>(number(what)), action(take(words)));
        } else if (who == "parent" && what == "silent") {
            parent_.fall_silent();
        } else if (who == "parent" && what == "gone") {
            parent_.leave();
        } else if (who == "parent" && what == "aborts") {
            parent_.abort("a scenario wants it");
        } else {
            throw Error(fmt::format("{} {} is not known", who, what));
        }
    }

    void tell_ends() {
        timeline_.note("end: {}", parent_.report().clean() ? "clean" : parent_.report().because());
        for (const RqRecord& record : read_rq(folder_.path() + "/queries-here-0.rq").records) {
            timeline_.say(describe_record(record));
        }
        std::ifstream hedges(folder_.path() + "/hedges-here-0.csv");
        for (std::string row; std::getline(hedges, row);) {
            timeline_.say("hedge: " + relative(row));
        }
        std::string counts = "counts:";
        const Counts values = read_counts(parent_.report().counts());
        Counts::fields([&](std::string_view name, auto member, std::string_view) {
            const std::uint64_t value = values.*member;
            counts += value == 0 ? "" : fmt::format(" {} {}", name, value);
        });
        timeline_.say(counts);
    }

    /// A row of hedges: times are seconds from the start.
    static std::string relative(const std::string& row) {
        std::istringstream cells(row);
        std::string text;
        for (std::string cell; std::getline(cells, cell, ',');) {
            const Nanoseconds time = std::strtoll(cell.c_str(), nullptr, 10);
            const bool is_time = time > kStart / 2;
            text += is_time ? fmt::format("{:.6f} ", static_cast<double>(time - kStart) / 1e9)
                            : cell + " ";
        }
        return text.substr(0, text.size() - 1);
    }

    [[nodiscard]] std::string describe_record(const RqRecord& record) const {
        constexpr std::array kStatus{"?",           "answered",          "timed out",
                                     "send failed", "connection failed", "skipped"};
        constexpr std::array kMarks{"reused",     "opened",       "retried",     "clock-step",
                                    "behind",     "id-rewritten", "ended-early", "waited",
                                    "hedged",     "hedge-won",    "fallback",    "resumed",
                                    "early-data", "unsure",       "trailing",    "silent"};
        std::string text =
            fmt::format("{}: {}", question_name(queries_.at(record.sequence).message),
                        kStatus.at(static_cast<size_t>(record.status)));
        if (record.send != 0) {
            text += fmt::format(" sent {:.6f}", static_cast<double>(record.send - kStart) / 1e9);
        }
        if (record.latency >= 0) {
            text += fmt::format(" latency {:.6f}", static_cast<double>(record.latency) / 1e9);
        }
        for (size_t bit = 0; bit < kMarks.size(); ++bit) {
            text += (record.marks >> bit & 1U) != 0 ? fmt::format(" {}", kMarks.at(bit)) : "";
        }
        return text;
    }

    ScratchFolder folder_;
    Timeline timeline_;
    Rules rules_;
    MemoryTlsServer tls_{ServerOptions{.early_data = 4096}};
    SimulatedNetwork network_;
    SimulatedParent parent_;
    wire::Options options_;
    QueryOptions query_;
    Nanoseconds ahead_ = 2 * kSecond;
    std::deque<std::vector<std::uint8_t>> messages_;
    std::map<std::string, std::uint32_t> sources_;
    std::vector<Query> queries_;
};

} // namespace

std::vector<std::string> play(const Scenario& scenario) {
    Player player;
    carry_out(scenario, player.verbs());
    return player.run();
}

} // namespace reprise::querier::testing
