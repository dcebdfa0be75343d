#include "core/tree/distributor.hh"

#include "core/base/log.hh"
#include "core/tree/fanout.hh"
#include "core/tree/host.hh"
#include "core/wire/frame.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

constexpr Nanoseconds kReapPatience = kSecond; ///< for all lost queriers together
/// For those that have reported: closing 20,000 connections takes the kernel a while.
constexpr Nanoseconds kExitPatience = 30 * kSecond;
constexpr std::uint64_t kMostRefusalsTold = 20;
constexpr Credit kCreditPortion{.records = 4096, .bytes = 5UL << 20U};
constexpr Nanoseconds kStandstill = kSecond;    ///< of this process, between two ticks
constexpr Nanoseconds kFarewell = 10 * kSecond; ///< for the parent to take Finished

unsigned default_queriers(const DistributorOptions& options) {
    if (options.queriers > 0 || !options.feeds.empty()) {
        return options.queriers;
    }
    return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::vector<std::string> querier_arguments(const DistributorOptions& options, unsigned index) {
    std::vector<std::string> list{"reprise-querier", "query",
                                  "--control-fd",    std::to_string(kControlFd),
                                  "--run-id",        options.run,
                                  "--name",          options.name,
                                  "--index",         std::to_string(index),
                                  "--results",       options.results};
    if (!options.cpus.empty()) {
        list.emplace_back("--cpu");
        list.push_back(std::to_string(options.cpus[index % options.cpus.size()]));
    }
    list.insert(list.end(), options.querier_arguments.begin(), options.querier_arguments.end());
    return list;
}

/// What the parent may have out. All of it may be for one querier, and wait here.
Credit window(const Children& children) {
    Credit window = credit_of(children);
    window.bytes = std::min(window.bytes, kHostBytes);
    return window;
}

} // namespace

Distributor::Distributor(DistributorOptions options, Host& host)
    : options_(std::move(options)), host_(host),
      fanout_(host, options_.run,
              {.ready = [this] { listen(); },
               .credit = [this](const Credit& credit) { return_credit(credit); },
               .abort = [this](const std::string& because) { tell_parent_abort(because); },
               .lost = [this](const Child& child) { on_lost(child); },
               .over = [this] { on_over(); }},
              "the distributor"),
      tick_(host.timer(kMillisecond * 200, [this] { tick(); })),
      flush_(host.timer(0, [this] { fanout_.flush(); })),
      farewell_(host.timer(0,
                           [this] {
                               note_unclean("the parent did not take the final report");
                               host_.stop();
                           })),
      beat_(host.clock().now(), kStandstill) {
    host.on_stop([this](const std::string& because) { stop(because); });
    options_.queriers = default_queriers(options_);
}

int Distributor::run() {
    add_children();
    host_.run();
    return finish();
}

/// Credit goes up in portions, so that blocks come down whole. What is held back is a small part of
/// what the parent was granted: it never waits for it alone.
void Distributor::return_credit(const Credit& credit) {
    credit_ += credit;
    const Credit all = window(fanout_.children());
    const bool enough = credit_.records >= std::min(kCreditPortion.records, all.records / 8) ||
                        credit_.bytes >= std::min(kCreditPortion.bytes, all.bytes / 8);
    if (parent_ && enough && !credit_.none()) {
        parent_->send(frame_of(std::exchange(credit_, {})));
    }
}

void Distributor::add_children() {
    for (unsigned i = 0; i < options_.queriers; ++i) {
        Host::Child child = host_.start(querier_arguments(options_, i));
        pids_.push_back(child.pid);
        fanout_.add(fmt::format("{}/{}", options_.name, i), fmt::format("pid {}", child.pid),
                    std::move(child.link));
    }
    for (const Peer& feed : options_.feeds) {
        fanout_.add(feed.name, feed.endpoint.text(), host_.connect(feed.endpoint));
    }
}

/// Until there is a parent; nobody else has business here.
void Distributor::listen() {
    listener_ = host_.listen(
        options_.listen,
        {.accepted = [this](std::unique_ptr<Link> parent) { welcome(std::move(parent)); },
         .refused = [this](const std::string& peer,
                           const std::string& because) { note_refusal(peer, because); }});
    if (!std::exchange(listened_, true)) {
        spdlog::info("event=listening endpoint={} queriers={}", options_.listen.text(),
                     queriers_of(fanout_.children()));
    }
}

void Distributor::welcome(std::unique_ptr<Link> parent) {
    listener_.reset();
    parent_ = std::move(parent);
    parent_->set_handler({
        .frame = [this](wire::Frame& frame) { on_parent_frame(frame); },
        .down =
            [this](const std::string& reason) {
                set_up_ ? stop("parent lost: " + reason) : refuse_parent(reason);
            },
        .block = [this](Bytes records) { on_block(records); },
    });
    wire::Frame frame;
    wire::Hello& hello = *frame.mutable_hello();
    hello = host_.facts();
    hello.set_protocol(kProtocolVersion);
    hello.set_run(options_.run);
    hello.set_name(options_.name);
    hello.set_queriers(queriers_of(fanout_.children()));
    const Credit credit = window(fanout_.children());
    hello.set_credit(credit.records);
    hello.set_credit_bytes(credit.bytes);
    parent_->send(frame);
}

/// It is not ours: another one may come.
void Distributor::refuse_parent(const std::string& because) {
    note_refusal("parent", because);
    parent_->close();
    gone_.push_back(std::move(parent_));
    try {
        listen();
    } catch (const std::exception& error) {
        stop(error.what());
    }
}

/// However many strangers come, the log stays short.
void Distributor::note_refusal(const std::string& peer, const std::string& because) {
    if (++refused_ <= kMostRefusalsTold) {
        spdlog::warn("event=refused peer={} because=\"{}\"{}", peer, because,
                     refused_ == kMostRefusalsTold ? " note=\"later ones are only counted\"" : "");
    }
}

/// A local querier that is lost is ended for good, so that nothing waits for it. Before the start
/// no run is possible without it.
void Distributor::on_lost(const Child& child) {
    for (size_t i = 0; i < pids_.size(); ++i) {
        if (fanout_.children()[i].get() == &child) {
            host_.signal(pids_[i], SIGKILL);
        }
    }
    if (!listened_) {
        stop(fmt::format("{} was lost before the start: {}", child.name, child.lost_because));
    }
}

void Distributor::on_parent_frame(wire::Frame& frame) {
    switch (frame.body_case()) {
    case wire::Frame::kSetup:
        if (frame.setup().protocol() != kProtocolVersion || frame.setup().run() != options_.run) {
            return refuse_parent("parent of another run or protocol version");
        }
        set_up_ = true;
        return fanout_.setup(frame.setup().options());
    case wire::Frame::kProbe: {
        wire::Frame reply;
        reply.mutable_reply()->set_sent_mono_ns(frame.probe().sent_mono_ns());
        reply.mutable_reply()->set_child_mono_ns(host_.clock().now());
        return parent_->send(reply);
    }
    case wire::Frame::kBlock:
        return on_block(bytes_of(frame.block().records()));
    case wire::Frame::kStart:
        return on_start(frame.start());
    case wire::Frame::kEnd:
        return fanout_.end();
    case wire::Frame::kAbort:
        return stop(frame.abort().because());
    default:
        return stop("the parent sent a message that only a child sends");
    }
}

void Distributor::on_block(Bytes records) {
    if (!started_) {
        return staged_.add(records, fanout_.children());
    }
    if (const std::string trouble = fanout_.give(records); !trouble.empty()) {
        stop(trouble);
    }
    flush_->again_in(0); // once for all blocks that are there
}

void Distributor::on_start(const wire::Start& start) {
    fanout_.start(start.start_mono_ns(), start.start_real_ns(), start.trace_first_ns());
    started_ = true;
    if (const std::string trouble = fanout_.give_first(staged_); !trouble.empty()) {
        stop(trouble);
    }
}

void Distributor::tell_parent_abort(const std::string& because) {
    if (parent_ && parent_->open()) {
        wire::Frame frame;
        frame.mutable_abort()->set_because(fmt::format("{}: {}", options_.name, because));
        parent_->send(frame);
    } else {
        stop(because);
    }
}

/// Stops in order: the queriers flush what they have and say Finished.
void Distributor::stop(const std::string& because) {
    if (unclean_.empty()) {
        spdlog::error("event=stop because=\"{}\"", because);
    }
    note_unclean(because);
    if (!set_up_) {
        for (const pid_t pid : pids_) {
            host_.signal(pid, SIGTERM);
        }
        host_.stop();
        return;
    }
    fanout_.abort(because);
}

void Distributor::tick() {
    gone_.clear();
    const Nanoseconds now = host_.clock().now();
    const bool paused = beat_.beat(now);
    const bool silent = !paused && // what the parent said meanwhile is still to be read
                        parent_ && parent_->open() && now - parent_->last_heard() > kParentSilence;
    if (silent && !set_up_) {
        refuse_parent("nothing heard for 1.8 s");
    } else if (silent) {
        parent_->close();
    }
    if (!set_up_ || all_over(fanout_.children())) {
        return;
    }
    if (silent) {
        stop("nothing heard from the parent for 1.8 s");
    }
    wire::Frame frame;
    *frame.mutable_status() = status_of(fanout_.children(), now);
    parent_->send(frame);
}

void Distributor::on_over() {
    if (!listened_) {
        note_unclean("a child was lost before the start");
        host_.stop();
        return;
    }
    wire::Frame frame;
    *frame.mutable_finished() = compile_reports();
    if (!parent_ || !parent_->open()) {
        return host_.stop();
    }
    parent_->send(frame);
    // Closing now could reset the link over unread probes and lose Finished on its way: the parent
    // closes.
    parent_->set_handler(
        {.frame = [](wire::Frame&) {}, .down = [this](const std::string&) { host_.stop(); }});
    farewell_->again_in(kFarewell);
}

wire::Finished Distributor::compile_reports() {
    wire::Finished finished;
    const Nanoseconds until = host_.clock().now() + kReapPatience;
    for (size_t i = 0; i < fanout_.children().size(); ++i) {
        Child& child = *fanout_.children()[i];
        const bool local = i < pids_.size();
        if (child.lost) {
            const std::string ending = local ? host_.reap(std::exchange(pids_[i], -1), until) : "";
            wire::QuerierReport& report = child.reports.emplace_back();
            report.set_host(local ? options_.name : child.name);
            report.set_querier(static_cast<std::uint32_t>(i));
            report.set_lost(true);
            report.set_because("lost: " + (ending.empty() ? child.lost_because : ending));
            *report.mutable_counts() = child.status.counts();
            report.set_assigned(child.assigned);
        }
        for (const wire::QuerierReport& report : child.reports) {
            wire::QuerierReport& out = *finished.add_reports();
            out = report;
            if (local) {
                out.set_assigned(child.assigned);
            }
        }
    }
    for (const auto& report : finished.reports()) {
        note_unclean(report.clean() ? "" : report.because());
    }
    return finished;
}

/// The first reason stays.
void Distributor::note_unclean(const std::string& because) {
    if (unclean_.empty()) {
        unclean_ = because;
    }
}

int Distributor::finish() {
    const Nanoseconds now = host_.clock().now();
    for (size_t i = 0; i < pids_.size(); ++i) {
        if (pids_[i] > 0) {
            const bool reported = !fanout_.children()[i]->reports.empty();
            note_unclean(host_.reap(pids_[i], now + (reported ? kExitPatience : kReapPatience)));
        }
    }
    if (refused_ > 0) {
        spdlog::info("event=refusals count={}", refused_);
    }
    if (unclean_.empty()) {
        return 0;
    }
    print_error("reprise-querier", unclean_);
    return 1;
}

} // namespace reprise::tree
