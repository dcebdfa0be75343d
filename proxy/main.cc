// reprise-proxy: `resolver` and `meta` rewrite addresses on either side, `delay` only delays,
// `stateless` answers DNS over TCP beside a server.
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/loop.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/service.hh"
#include "proxy/stateless/bpf/bpf_front.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/front.hh"
#include "proxy/statistics.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <linux/capability.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <utility>

namespace reprise::proxy {

namespace {

/// Defaults of the subcommands that rewrite or delay.
struct ProcessOptions {
    Side side = Side::kNone;
    std::string tun;         ///< name of the device
    std::string map;         ///< path of a map.tsv; not for Side::kNone
    unsigned resolver = 1;   ///< whose queries; Side::kResolver only
    std::string stats;       ///< path, empty for none
    std::string user;        ///< whose rights to keep, empty for one's own
    bool realtime = false;   ///< SCHED_FIFO
    bool via_kernel = false; ///< every packet goes by the host's routing
};

constexpr Nanoseconds kRefreshEvery = 100 * kMillisecond;

Routes routes_of(const ProcessOptions& options, const AddressMap& map) {
    return options.side == Side::kResolver ? Routes::of_resolver(map, options.resolver)
           : options.side == Side::kMeta   ? Routes::of_meta(map)
                                           : Routes{};
}

/// None where it is not wanted, nothing is rewritten, or packet sockets may not be opened.
std::unique_ptr<LinkSender> link_sender(const ProcessOptions& options, const AddressMap& map,
                                        const Tun& tun) {
    if (options.via_kernel || options.side == Side::kNone) {
        return nullptr;
    }
    try {
        return std::make_unique<LinkSender>(flows(map, options.side, options.resolver),
                                            tun.index());
    } catch (const SystemError& error) {
        spdlog::warn("event=no_link_sender because={} hint=\"run as root; packets go by the "
                     "host's routing, which costs more\"",
                     log_value(error.what()));
        return nullptr;
    }
}

/// Carries packets.
class Process final : public Service {
public:
    Process(const ProcessOptions& options, std::unique_ptr<DelayModel> model, const AddressMap& map)
        : model_(std::move(model)), tun_(options.tun),
          mtu_(tun_, neighbors(map, options.side, options.resolver)),
          link_(link_sender(options, map, tun_)), loop_(tun_, routes_of(options, map), model_.get(),
                                                        link_.get(), statistics_, system_clock()) {
        statistics_.side = options.side == Side::kResolver ? "resolver"
                           : options.side == Side::kMeta   ? "meta"
                                                           : "delay";
        statistics_.started = SteadyClock::now();
        dropped_before_ = tun_.dropped().value_or(0);
        mtu_.fit();
        // Sleeps end when asked, not some 50 µs later.
        static_cast<void>(prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0));
        if (options.realtime) {
            statistics_.realtime_refused = run_first();
        }
        if (!options.user.empty()) {
            become(options.user, CAP_NET_ADMIN); // for the device's MTU
        }
    }

    [[nodiscard]] int fd() const override { return tun_.fd(); }

    void readable() override { loop_.read_batch(); }

    [[nodiscard]] std::optional<Nanoseconds> next_due() const override {
        const auto packet = loop_.next_due();
        return link_ ? std::min(next_refresh_, packet.value_or(next_refresh_)) : packet;
    }

    void tick(Nanoseconds now) override {
        loop_.release_due(now);
        if (link_ && now >= next_refresh_) {
            link_->refresh();
            next_refresh_ = link_->busy() ? 0 : SteadyClock::now() + kRefreshEvery;
        }
    }

    void each_second(Nanoseconds /*now*/) override {
        if (link_) {
            link_->confirm();
        }
        mtu_.fit(); // routes and links change
    }

    std::string statistics() override {
        // The last value stays where the device has vanished or was made anew.
        const std::uint64_t dropped = tun_.dropped().value_or(0);
        if (dropped >= dropped_before_ + statistics_.unread) {
            statistics_.unread = dropped - dropped_before_;
        }
        const Nanoseconds now = SteadyClock::now();
        statistics_.counted_until = tun_.waits() ? statistics_.counted_until : now;
        return to_json(statistics_);
    }

    void tell_ready() override {
        spdlog::info("event=ready side={} device={}", statistics_.side, tun_.name());
    }

    void tell_end() override {
        spdlog::info("event=end read={} written={} unmapped={} malformed={}", statistics_.read,
                     statistics_.written, statistics_.verdicts[size_t(Verdict::kUnmapped)],
                     statistics_.malformed());
    }

private:
    std::unique_ptr<DelayModel> model_;
    Tun tun_;
    MtuKeeper mtu_;
    Statistics statistics_;
    std::unique_ptr<LinkSender> link_;
    Loop loop_;
    std::uint64_t dropped_before_ = 0;
    Nanoseconds next_refresh_ = 0;
};

/// Serves as a front of statelessTCP until a signal comes, or only undoes what a killed one of this
/// kind has left on the host, if anything. Throws UsageError, Error or SystemError.
void run_stateless(const StatelessOptions& options) {
    spdlog::set_level(options.loglevel >= 3 ? spdlog::level::debug : spdlog::level::info);
    const bool is_bpf = options.front == FrontKind::kBpf;
    if (options.undo) {
        is_bpf ? repair_bpf_interface(options.interfaces.front())
               : stateless::repair_reference_host();
        return;
    }
    const Signals signals = service_signals();
    if (!is_bpf && options.active) {
        std::ranges::for_each(options.interfaces, refuse_programs);
    }
    const std::unique_ptr<Front> front =
        is_bpf ? make_bpf_front(options) : stateless::make_reference_front(options);
    serve(*front, signals, options.stats);
}

/// What the parsed subcommand asks for.
struct CommandLine {
    ProcessOptions process; ///< with the side of the subcommand
    DelayOptions delay;
    bool check = false; ///< only look at the delay's options and files
    StatelessOptions stateless;
};

Command add_command(Command& app, CommandLine& line, Side side, const char* name,
                    const char* help) {
    Command command = app.add_subcommand(name, help);
    command.callback([&line, side] { line.process.side = side; });
    ProcessOptions& process = line.process;
    command
        .add_option("--tun", process.tun,
                    "TUN device to which the host routes the packets; made where it is missing")
        .required();
    command.add_option("--stats", process.stats,
                       "write the counts there every second and at the end, as JSON");
    command.add_flag("--realtime", process.realtime, "run before ordinary processes (SCHED_FIFO)");
    command.add_option("--user", process.user,
                       "give up root for this user once the device is open; only the right to "
                       "change the device is kept");
    add_delay_options(command, line.delay);
    return command;
}

void add_map(Command command, CommandLine& line) {
    command.add_option("--map", line.process.map, "map.tsv of the plan").required();
    command.add_flag("--via-kernel", line.process.via_kernel,
                     "hand every packet to the host's forwarding, so that its packet filter sees "
                     "it; otherwise most go straight to the next hop, which costs less");
}

/// Adds the subcommands; `line` must outlive parsing.
void add_commands(Command& app, CommandLine& line) {
    app.require_subcommand(1);
    Command resolver =
        add_command(app, line, Side::kResolver, "resolver",
                    "beside a resolver: its queries go to the meta-DNS-server, as if from the "
                    "server that they ask");
    add_map(resolver, line);
    resolver.add_option("--resolver", line.process.resolver, "number of the resolver in the map")
        .show_default();
    add_map(add_command(app, line, Side::kMeta, "meta",
                        "beside the meta-DNS-server: its answers go to the resolver, as if from "
                        "the server that was asked"),
            line);
    add_command(app, line, Side::kNone, "delay", "delays packets and rewrites nothing")
        .add_flag("--check", line.check, "delay nothing: look at the options and their files");
    add_stateless(app, line.stateless);
}

/// The delay model, or null where packets go on at once. Beside a resolver and beside the
/// meta-DNS-server each proxy has one direction and waits half of the round trip; replies of a
/// server wait all of it. Throws UsageError, also for `delay` without a delay.
std::unique_ptr<DelayModel> model_of(const CommandLine& line) {
    const Side side = line.process.side;
    auto model =
        make_model(line.delay, side == Side::kNone ? 1 : 0.5, static_cast<std::uint64_t>(side));
    if (model == nullptr && side == Side::kNone) {
        throw UsageError("delay: nothing to delay by; give --rtt-ms, --table, --distribution, "
                         "--jitter-ms or --loss-percent");
    }
    return model;
}

/// Does what the command line says; the exit status.
int run(int argc, char** argv) {
    CommandLine line;
    Command app("Makes one server stand for all servers of a DNS hierarchy, by rewriting "
                "addresses between a TUN device and the host; delays packets, and answers DNS "
                "over TCP beside a server, where asked.",
                "reprise-proxy");
    app.set_version_flag("--version", REPRISE_VERSION);
    add_commands(app, line);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (app.got_subcommand("stateless")) {
        complete(app.get_subcommand("stateless"), line.stateless);
        run_stateless(line.stateless);
        return 0;
    }
    auto model = model_of(line);
    if (!line.check) {
        const Signals signals = service_signals();
        const ProcessOptions& options = line.process;
        Process process(options, std::move(model),
                        options.side == Side::kNone ? AddressMap{} : read_map(options.map));
        serve(process, signals, options.stats);
    }
    return 0;
}

} // namespace

} // namespace reprise::proxy

int main(int argc, char** argv) {
    return reprise::run_main("reprise-proxy", reprise::proxy::run, argc, argv);
}
