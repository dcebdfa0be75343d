#include "proxy/process.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/base/realtime.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/host.hh"
#include "proxy/loop.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/statistics.hh"
#include "proxy/statistics_file.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/path_mtu.hh"
#include "proxy/tun/tun.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::proxy {

namespace {

constexpr Nanoseconds kReportEvery = kSecond;
constexpr Nanoseconds kRefreshEvery = 100 * kMillisecond;

std::string_view side_name(Side side) {
    return side == Side::kResolver ? "resolver" : side == Side::kMeta ? "meta" : "delay";
}

AddressMap map_of(const ProcessOptions& options) {
    return options.side == Side::kNone ? AddressMap{} : read_map(options.map);
}

Routes routes_of(const ProcessOptions& options, const AddressMap& map) {
    switch (options.side) {
    case Side::kResolver:
        return Routes::of_resolver(map, options.resolver);
    case Side::kMeta:
        return Routes::of_meta(map);
    case Side::kNone:
        break;
    }
    return {};
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

class Process {
public:
    Process(const ProcessOptions& options, std::unique_ptr<DelayModel> model, const AddressMap& map)
        : options_(options), model_(std::move(model)), tun_(options.tun),
          mtu_(tun_, neighbours(map, options.side, options.resolver)),
          file_(options.stats, [this] { return report(); }), link_(link_sender(options, map, tun_)),
          loop_(tun_, routes_of(options, map), model_.get(), link_.get(), statistics_) {
        statistics_.side = side_name(options.side);
        statistics_.started = SteadyClock::now();
        dropped_before_ = tun_.dropped().value_or(0);
        mtu_.fit();
    }

    /// Until a signal ends it.
    void run() {
        prepare();
        next_report_ = SteadyClock::now() + kReportEvery;
        try {
            while (!stopped_) {
                turn();
            }
        } catch (const std::exception&) {
            file_.write_or_warn(); // the error that ends the run is the one to tell
            throw;
        }
        spdlog::info("event=end read={} written={} unmapped={} malformed={}", statistics_.read,
                     statistics_.written, statistics_.verdicts[size_t(Verdict::kUnmapped)],
                     statistics_.malformed());
        file_.write();
    }

private:
    void prepare() {
        set_timer_slack();
        if (options_.realtime) {
            statistics_.realtime_refused = run_first();
        }
        if (!options_.user.empty()) {
            become(options_.user);
        }
        file_.write(); // a path that cannot be written is told at once
        spdlog::info("event=ready side={} device={}", statistics_.side, tun_.name());
    }

    /// Waits for whatever comes first and does what it brought.
    void turn() {
        std::array polls{pollfd{.fd = tun_.fd(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
        wait(polls);
        if (polls[0].revents != 0) {
            loop_.read_batch();
        }
        loop_.release_due();
        if (polls[1].revents != 0) {
            handle_signals();
        }
        refresh_if_due();
        report_if_due();
    }

    void wait(std::span<pollfd> polls) const {
        const Nanoseconds housework = link_ ? next_refresh_ : next_report_;
        const Nanoseconds until = std::min(housework, loop_.next_due().value_or(housework));
        const Nanoseconds left = std::max<Nanoseconds>(until - SteadyClock::now(), 0);
        const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
        if (ppoll(polls.data(), polls.size(), &timeout, nullptr) < 0 && errno != EINTR) {
            throw SystemError("ppoll");
        }
    }

    void handle_signals() {
        while (const auto number = signals_.next()) {
            if (*number == SIGHUP) {
                reload();
            } else {
                stopped_ = true;
            }
        }
    }

    void reload() {
        try {
            const AddressMap map = map_of(options_);
            loop_.replace_routes(routes_of(options_, map));
            mtu_.replace(neighbours(map, options_.side, options_.resolver));
            if (link_) {
                link_->replace(flows(map, options_.side, options_.resolver));
            }
            spdlog::info("event=reloaded map={}", log_value(options_.map));
        } catch (const std::exception& error) {
            spdlog::warn("event=not_reloaded because={} hint=\"the old map stays in use\"",
                         log_value(error.what()));
        }
    }

    std::string report() {
        // The last value stays where the device has vanished or was made anew.
        const std::uint64_t dropped = tun_.dropped().value_or(0);
        if (dropped >= dropped_before_ + statistics_.unread) {
            statistics_.unread = dropped - dropped_before_;
        }
        const Nanoseconds now = SteadyClock::now();
        statistics_.counted_until = tun_.waits() ? statistics_.counted_until : now;
        return to_json(statistics_);
    }

    void refresh_if_due() {
        if (link_ && SteadyClock::now() >= next_refresh_) {
            link_->refresh();
            next_refresh_ = link_->busy() ? 0 : SteadyClock::now() + kRefreshEvery;
        }
    }

    /// What is done once a second.
    void report_if_due() {
        const Nanoseconds now = SteadyClock::now();
        if (now >= next_report_) {
            next_report_ = now + kReportEvery;
            if (link_) {
                link_->confirm();
            }
            file_.write_or_warn();
            mtu_.fit(); // routes and links change
        }
    }

    const ProcessOptions& options_;
    Signals signals_;
    std::unique_ptr<DelayModel> model_;
    Tun tun_;
    MtuKeeper mtu_;
    Statistics statistics_;
    StatisticsFile file_;
    std::unique_ptr<LinkSender> link_;
    Loop loop_;
    std::uint64_t dropped_before_ = 0;
    Nanoseconds next_report_ = 0;
    Nanoseconds next_refresh_ = 0;
    bool stopped_ = false;
};

} // namespace

int run_process(const ProcessOptions& options, std::unique_ptr<DelayModel> model) {
    const AddressMap map = map_of(options);
    Process(options, std::move(model), map).run();
    return 0;
}

} // namespace reprise::proxy
