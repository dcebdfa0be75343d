#include "querier/distributor.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/tree/block_frame.hh"
#include "core/tree/event_loop.hh"
#include "core/tree/fanout.hh"
#include "core/tree/host_facts.hh"
#include "core/tree/link.hh"
#include "core/wire/credit.hh"
#include "core/wire/frame.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kReapPatience = kSecond; ///< for all lost queriers together
/// For those that have reported: closing 20,000 connections takes the kernel a while.
constexpr Nanoseconds kExitPatience = 30 * kSecond;
constexpr size_t kMostNewcomers = 512;
constexpr size_t kMostOfAddress = 256;
constexpr std::uint64_t kMostRefusalsTold = 20;
constexpr Credit kCreditPortion{.records = 4096, .bytes = 5UL << 20U};
constexpr Nanoseconds kHandshakeTime = 5 * kSecond;
constexpr Nanoseconds kLongPause = kSecond;     ///< of this process, between two ticks
constexpr Nanoseconds kFarewell = 10 * kSecond; ///< for the parent to take Finished

Bytes bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

unsigned default_queriers(const DistributorOptions& options) {
    if (options.queriers > 0 || !options.feeds.empty()) {
        return options.queriers;
    }
    return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::pair<std::string, Endpoint> parse_feed(const std::string& text) {
    const size_t equals = text.find('=');
    const bool named = equals != std::string::npos;
    const auto endpoint = Endpoint::parse(named ? text.substr(equals + 1) : text);
    if (!endpoint || endpoint->port == 0) {
        throw UsageError(fmt::format("--feed {}: not [NAME=]ADDRESS:PORT", text));
    }
    return {named ? text.substr(0, equals) : "", *endpoint};
}

wire::QuerierReport report_of_lost(const tree::Child& child, const std::string& ending) {
    wire::QuerierReport out;
    out.set_clean(false);
    out.set_lost(true);
    out.set_because("lost: " + (ending.empty() ? child.lost_because : ending));
    *out.mutable_counts() = child.status.counts();
    out.set_assigned(child.assigned);
    return out;
}

} // namespace

int run_distributor(const DistributorOptions& options) { return Distributor(options).run(); }

Distributor::Distributor(const DistributorOptions& options)
    : options_(options), tls_(options.tls),
      fanout_(loop_, options.run,
              {.ready = [this] { on_children_ready(); },
               .credit = [this](const Credit& credit) { return_credit(credit); },
               .abort = [this](const std::string& because) { tell_parent_abort(because); },
               .lost = [this](const tree::Child& child) { on_lost(child); },
               .over = [this] { on_over(); }},
              "the distributor"),
      tick_(tree::Watch::every(loop_, kMillisecond * 200, [this] { tick(); })),
      flush_(tree::Watch::timer(loop_, [this] { fanout_.flush(); })),
      farewell_(tree::Watch::timer(loop_,
                                   [this] {
                                       note_unclean("the parent did not take the final report");
                                       loop_.stop();
                                   })),
      interrupt_(tree::Watch::on_signal(loop_, SIGINT, [this] { stop("interrupted"); })),
      terminate_(tree::Watch::on_signal(loop_, SIGTERM, [this] { stop("terminated"); })),
      quit_(tree::Watch::on_signal(loop_, SIGQUIT, [this] { stop("terminated"); })) {
    options_.queriers = default_queriers(options);
}

int Distributor::run() {
    start_queriers();
    feed_others();
    loop_.run();
    return finish();
}

/// What the parent may have out. All of it may be for one querier, and wait here.
Credit Distributor::window() const {
    Credit window = fanout_.credit();
    window.bytes = std::min(window.bytes, kHostBytes);
    return window;
}

/// Credit goes up in portions, so that blocks come down whole. What is held back is a small part of
/// what the parent was granted: it never waits for it alone.
void Distributor::return_credit(const Credit& credit) {
    credit_ += credit;
    const Credit all = window();
    const bool enough = credit_.records >= std::min(kCreditPortion.records, all.records / 8) ||
                        credit_.bytes >= std::min(kCreditPortion.bytes, all.bytes / 8);
    if (parent_ && enough && !credit_.none()) {
        parent_->send(frame_of(std::exchange(credit_, {})));
    }
}

void Distributor::start_queriers() {
    for (unsigned i = 0; i < options_.queriers; ++i) {
        QuerierProcess process = start_querier(options_, i);
        pids_.push_back(process.pid);
        fanout_.add(fmt::format("{}/{}", options_.name, i), fmt::format("pid {}", process.pid),
                    tree::Link::local(loop_, std::move(process.control)));
    }
}

void Distributor::feed_others() {
    for (const std::string& text : options_.feeds) {
        const auto [name, endpoint] = parse_feed(text);
        fanout_.add(name, endpoint.text(), tree::Link::connect(loop_, tls_, endpoint));
    }
}

void Distributor::on_children_ready() {
    listened_ = true;
    listen();
    spdlog::info("event=listening endpoint={} queriers={}", options_.listen.text(),
                 fanout_.queriers());
}

/// Until there is a parent; nobody else has business here.
void Distributor::listen() {
    listener_ = std::make_unique<tree::Listener>(
        loop_, options_.listen, [this](FileDescriptor socket, const Endpoint& peer) {
            on_accept(std::move(socket), peer);
        });
    options_.listen = listener_->endpoint();
}

/// A peer becomes the parent only when TLS has verified it; until then it is one of a few newcomers
/// with little time.
void Distributor::on_accept(FileDescriptor socket, const Endpoint& peer) {
    make_room(peer.address);
    newcomers_.push_back({.address = peer.address,
                          .since = loop_.clock().now(),
                          .link = tree::Link::accept(loop_, tls_, std::move(socket))});
    tree::Link* const link = newcomers_.back().link.get();
    link->set_handler({
        .up = [this, link] { welcome(*link); },
        .frame = [link](wire::Frame&) { link->close(); },
        .down = [this, peer](const std::string& reason) { note_refusal(peer.text(), reason); },
    });
}

/// The oldest newcomer makes room: of the new one's address where that has its share, else of the
/// address that has most. So a parent, which needs a few milliseconds, is not the one that goes,
/// unless strangers come from more addresses than there is room for.
void Distributor::make_room(const IpAddress& address) {
    std::unordered_map<IpAddress, size_t> held;
    for (const Newcomer& one : newcomers_) {
        ++held[one.address];
    }
    const bool full = newcomers_.size() >= kMostNewcomers;
    if (!full && held[address] < kMostOfAddress) {
        return;
    }
    const IpAddress from = held[address] >= kMostOfAddress
                               ? address
                               : std::ranges::max_element(held, {}, [](const auto& entry) {
                                     return entry.second;
                                 })->first;
    const auto oldest = std::ranges::find(newcomers_, from, &Newcomer::address);
    note_refusal(from.text(), "made room for another one");
    oldest->link->close();
    gone_.push_back(std::move(oldest->link));
    newcomers_.erase(oldest);
}

void Distributor::welcome(tree::Link& link) {
    const auto found = std::ranges::find_if(
        newcomers_, [&](const Newcomer& one) { return one.link.get() == &link; });
    parent_ = std::move(found->link);
    newcomers_.erase(found);
    listener_.reset();
    for (Newcomer& other : newcomers_) {
        other.link->close();
    }
    greet();
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
void Distributor::on_lost(const tree::Child& child) {
    for (size_t i = 0; i < pids_.size(); ++i) {
        if (fanout_.children()[i].get() == &child) {
            kill(pids_[i], SIGKILL);
        }
    }
    if (!listened_) {
        stop(fmt::format("{} was lost before the start: {}", child.name, child.lost_because));
    }
}

void Distributor::greet() {
    parent_->set_handler({
        .up = nullptr,
        .frame = [this](wire::Frame& frame) { on_parent_frame(frame); },
        .down = [this](const std::string& reason) { on_parent_down(reason); },
        .block = [this](const tree::BlockView& block) { on_block(block.records); },
    });
    wire::Frame frame;
    wire::Hello& hello = *frame.mutable_hello();
    hello.set_protocol(kProtocolVersion);
    hello.set_run(options_.run);
    hello.set_name(options_.name);
    hello.set_queriers(fanout_.queriers());
    hello.set_credit(window().records);
    hello.set_credit_bytes(window().bytes);
    tree::describe_host(hello);
    parent_->send(frame);
}

void Distributor::on_parent_frame(wire::Frame& frame) {
    switch (frame.body_case()) {
    case wire::Frame::kSetup:
        return on_setup(frame.setup());
    case wire::Frame::kProbe: {
        wire::Frame reply;
        reply.mutable_reply()->set_sent_mono_ns(frame.probe().sent_mono_ns());
        reply.mutable_reply()->set_child_mono_ns(loop_.clock().now());
        return parent_->send(reply);
    }
    case wire::Frame::kBlock:
        return on_block(bytes_of(frame.block().records()));
    case wire::Frame::kStart:
        return on_start(frame.start());
    case wire::Frame::kEnd:
        ended_ = true;
        return fanout_.end();
    case wire::Frame::kAbort:
        return stop(frame.abort().because());
    default:
        return stop("the parent sent a message that only a child sends");
    }
}

void Distributor::on_setup(const wire::Setup& setup) {
    if (setup.protocol() != kProtocolVersion || setup.run() != options_.run) {
        return refuse_parent("parent of another run or protocol version");
    }
    set_up_ = true;
    fanout_.setup(setup.options());
}

void Distributor::on_block(Bytes records) {
    if (started_) {
        give(records);
        flush_.again_in(0); // once for all blocks that are there
    } else {
        staged_.add(records);
    }
}

void Distributor::give(Bytes block) {
    RecordSkimmer records(block);
    RecordView query;
    while (records.next(query)) {
        fanout_.give(query);
    }
    if (records.error() != RecordError::kNone) {
        stop(fmt::format("corrupt record at byte {} of a block", records.offset()));
    }
}

void Distributor::on_start(const wire::Start& start) {
    std::unordered_map<IpAddress, std::uint64_t> sources;
    staged_.look([&sources](Bytes piece) {
        RecordSkimmer records(piece);
        RecordView query;
        while (records.next(query)) {
            sources[query.source()] += query.is_close() ? 0U : 1U;
        }
    });
    fanout_.place_heavy(sources);
    fanout_.start(start.start_mono_ns(), start.start_real_ns(), start.trace_first_ns());
    started_ = true;
    staged_.drain([this](Bytes piece) { give(piece); });
    fanout_.flush();
}

void Distributor::on_parent_down(const std::string& reason) {
    if (set_up_) {
        stop("parent lost: " + reason);
    } else {
        refuse_parent(reason);
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
            kill(pid, SIGTERM);
        }
        loop_.stop();
        return;
    }
    fanout_.abort(because);
}

void Distributor::tick() {
    gone_.clear();
    const Nanoseconds now = loop_.clock().now();
    std::erase_if(newcomers_, [&](const Newcomer& one) {
        return !one.link->open() || now - one.since > kHandshakeTime;
    });
    const bool paused = now - std::exchange(ticked_, now) > kLongPause;
    const bool silent = !paused && // what the parent said meanwhile is still to be read
                        parent_ && parent_->open() &&
                        now - parent_->last_heard() > tree::kParentSilence;
    if (silent && !set_up_) {
        refuse_parent("nothing heard for 1.8 s");
    } else if (silent) {
        parent_->close();
    }
    if (!set_up_ || fanout_.over()) {
        return;
    }
    if (silent) {
        stop("nothing heard from the parent for 1.8 s");
    }
    wire::Frame frame;
    *frame.mutable_status() = fanout_.status();
    parent_->send(frame);
}

void Distributor::on_over() {
    if (!listened_) {
        unclean_ = "a child was lost before the start";
        loop_.stop();
        return;
    }
    if (parent_ && parent_->open()) {
        wire::Frame frame;
        *frame.mutable_finished() = compile_reports();
        parent_->send(frame);
        // Closing now could reset the link over unread probes and lose Finished on its way: the
        // parent closes.
        parent_->set_handler({.up = nullptr,
                              .frame = [](wire::Frame&) {},
                              .down = [this](const std::string&) { loop_.stop(); }});
        farewell_.again_in(kFarewell);
    } else {
        std::ignore = compile_reports(); // for unclean_
        loop_.stop();
    }
}

wire::Finished Distributor::compile_reports() {
    wire::Finished finished;
    const Nanoseconds until = loop_.clock().now() + kReapPatience;
    for (size_t i = 0; i < fanout_.children().size(); ++i) {
        tree::Child& child = *fanout_.children()[i];
        const bool local = i < pids_.size();
        const std::string ending = local && child.lost
                                       ? reap(std::exchange(pids_[i], -1), until, loop_.clock())
                                       : std::string();
        for (wire::QuerierReport& report : child.reports) {
            wire::QuerierReport& out = *finished.add_reports();
            out = report;
            if (local) {
                out.set_assigned(child.assigned);
            }
        }
        if (child.lost) {
            wire::QuerierReport& out = *finished.add_reports();
            out = report_of_lost(child, ending);
            out.set_host(local ? options_.name : child.name);
            out.set_querier(static_cast<std::uint32_t>(i));
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
    const Nanoseconds now = loop_.clock().now();
    for (size_t i = 0; i < pids_.size(); ++i) {
        if (pids_[i] > 0) {
            const bool reported = !fanout_.children()[i]->reports.empty();
            note_unclean(
                reap(pids_[i], now + (reported ? kExitPatience : kReapPatience), loop_.clock()));
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

} // namespace reprise::querier
